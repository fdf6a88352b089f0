"""Run directories made by hand, file by file, as the engine would leave them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import yaml

RunMaker = Callable[..., Path]


def _config(name: str, seed: int, loss: str, head: str, noise: str, epochs: int) -> dict[str, Any]:
    options = {"rho": 0.5, "beta": 0.9} if head == "sem" else {}
    return {
        "name": name,
        "data": {"spec": "digits", "root": None},
        "noise": {"spec": noise, "protocol": "paper", "seed": seed},
        "model": {"name": "cnn", "width": 32},
        "head": {"name": head, "at": None, "options": options},
        "loss": {"name": loss, "options": {}},
        "method": {"name": "supervised"},
        "optim": {"name": "sgd", "lr": 0.01, "momentum": 0.9},
        "train": {"epochs": epochs, "batch_size": 128, "seed": seed},
        "eval": {"batch_size": 512, "every": 1, "top5": False},
        "log": {"trackers": ["tensorboard"], "thumbnails": 64},
    }


def _history(epochs: int, lift: float, rng: np.random.Generator) -> list[dict[str, Any]]:
    rows = []
    for epoch in range(epochs):
        t = (epoch + 1) / epochs
        accuracy = 0.3 + lift * (1 - np.exp(-6 * t)) - 0.1 * t**2 + rng.normal(0, 0.004)
        rows.append(
            {
                "epoch": epoch,
                "step": 12 * (epoch + 1),
                "seconds": 1.5,
                "lr": 0.01,
                "train/loss": 2.3 - 1.2 * t,
                "test/accuracy": float(accuracy),
                "test/balanced_accuracy": float(accuracy - 0.01),
                "validation/accuracy": float(0.4 * accuracy),
                "head/retention": float(0.15 + 0.5 * np.exp(-5 * t)),
                "confidence/clean": float(0.2 + 0.7 * t),
                "confidence/noisy": float(0.05 + 0.5 * (1 - lift) * t**2),
                "memorised": float(0.05 + (0.9 - lift) * t**2 + rng.normal(0, 0.01)),
                "corrected": float(0.7 * t),
                "fitted": float(0.3 + 0.65 * t),
            }
        )
    return rows


def write_run(
    path: Path,
    *,
    name: str = "digits-ce-sem",
    seed: int = 0,
    loss: str = "ce",
    head: str = "sem",
    noise: str = "sym:0.6",
    epochs: int = 24,
    lift: float = 0.6,
    classes: int = 10,
    names: list[str] | None = None,
    samples: int = 600,
    features: int = 64,
    pictures: tuple[int, int, int, int] | None = (64, 32, 32, 3),
    clean_known: bool = True,
    finished: bool = True,
) -> Path:
    """Write a run directory whose numbers follow from the seed alone."""
    path.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    names = names or [f"class {place}" for place in range(classes)]
    config = _config(name, seed, loss, head, noise, epochs)
    (path / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
    clean = rng.integers(0, classes, samples)
    flip = rng.random(samples) < 0.5
    given = np.where(flip, rng.integers(0, classes, samples), clean)
    wrong = given != clean
    manifest = {"noisy": given, "digest": np.array("0" * 64)}
    record = {
        "format": "edgemask-noise-1",
        "num_classes": classes,
        "kind": "symmetric",
        "protocol": "paper",
        "rate": 0.6 if clean_known else None,
        "seed": seed,
        "details": {},
    }
    manifest["meta"] = np.array(json.dumps(record))
    if clean_known:
        manifest["clean"] = clean
    np.savez(path / "noise.npz", **manifest)
    rows = _history(epochs, lift, rng)
    if not clean_known:
        for row in rows:
            row |= dict.fromkeys(
                ("confidence/clean", "confidence/noisy", "memorised", "corrected", "fitted")
            )
    if head != "sem":
        for row in rows:
            del row["head/retention"]
    (path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    if head == "sem":
        scores = rng.beta(0.5, 4, (epochs, classes, features)).astype(np.float16)
        scores *= np.linspace(1, 0.4, epochs)[:, None, None].astype(np.float16)
        edges = np.linspace(0, 1, 51)
        np.savez(
            path / "head.npz",
            epochs=np.arange(epochs),
            retention=np.array([row["head/retention"] for row in rows], np.float32),
            scores=scores,
            columns=np.arange(features) * 4,
            histogram=np.stack([np.histogram(frame, edges)[0] for frame in scores]),
            edges=edges,
        )
    if not finished:
        return path
    trust = np.clip(np.where(wrong, 0.15, 0.85) + rng.normal(0, 0.18, samples), 0, 1)
    table = {
        "index": np.arange(samples),
        "given": given,
        "predicted": np.where(rng.random(samples) < 0.8, clean, given),
        "confidence": trust.astype(np.float32),
        "trust": trust.astype(np.float32),
        "mean_loss": (3 - 2.5 * trust).astype(np.float32),
    }
    if clean_known:
        table["clean"] = clean
    np.savez(path / "samples.npz", **table)
    if pictures is not None:
        count, height, width, channels = pictures
        order = np.argsort(trust)[:count]
        fade = np.linspace(0, 200, width)[None, None, :, None]
        images = fade + rng.integers(0, 55, (count, height, width, channels))
        np.savez(path / "thumbnails.npz", index=order, images=images.astype(np.uint8))
    values = [row["test/accuracy"] for row in rows]
    balanced = [row["test/balanced_accuracy"] for row in rows]
    summary = {
        "status": "finished",
        "epochs": epochs,
        "test/accuracy": _ends(values),
        "test/balanced_accuracy": _ends(balanced),
        "per_class_accuracy": rng.uniform(0.5, 0.95, classes).tolist(),
        "class_names": names,
        "noise": {
            "kind": "symmetric",
            "protocol": "paper",
            "rate": 0.6 if clean_known else None,
            "realised_rate": float(wrong.mean()) if clean_known else None,
            "estimated_rate": 0.47,
        },
        "head/retention": rows[-1].get("head/retention"),
        "memorised": rows[-1]["memorised"],
        "seconds": 1.5 * epochs,
        "versions": {"edgemask": "0.1.0", "torch": "2.13.0", "python": "3.11.7"},
        "config_hash": "c0ffee00",
        "noise_fingerprint": f"f00d{seed:04d}",
        "seed": seed,
        "command": f"edgemask train --data digits --noise {noise} --loss {loss} --seed {seed}",
    }
    (path / "summary.json").write_text(json.dumps(summary), encoding="utf-8")
    return path


def _ends(values: list[float]) -> dict[str, Any]:
    return {
        "last": values[-1],
        "mean_last_10": float(np.mean(values[-10:])),
        "best": max(values),
        "best_epoch": values.index(max(values)),
        "at_validation": max(values),
    }
