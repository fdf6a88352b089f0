"""Audit folders made by hand, file by file, as an audit would leave them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

REASONS = ["another label is far likelier", "another label is likelier", "<b>odd</b>"]


def write_audit(
    path: Path,
    *,
    samples: int = 300,
    listed: int = 60,
    names: list[str] | None = None,
    ids: list[str] | None = None,
    pictures: int | None = 200,
    items: list[dict[str, Any]] | None = None,
    kind: str = "cannot tell",
    draw: int = 100,
    decisions: list[dict[str, str]] | None = None,
    seed: int = 0,
) -> Path:
    """Write an audit folder whose numbers follow from the seed alone."""
    path.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    names = names or ["cat", "dog", "cow", "hen"]
    given = rng.integers(0, len(names), samples)
    other = (given + 1 + rng.integers(0, len(names) - 1, samples)) % len(names)
    rank = rng.permutation(samples) + 1
    worth = rank <= listed
    ids = ids or [f"{names[given[n]]}/{n:04d}.png" for n in range(samples)]
    np.savez(
        path / "samples.npz",
        id=np.array(ids),
        given=given.astype(np.int32),
        suggested=np.where(worth, other, given).astype(np.int32),
        trust=rank / samples,
        doubt=1 - rank / samples,
        listed=worth,
        rank=rank,
        reason=rng.integers(0, len(REASONS), samples).astype(np.int16),
    )
    matrix = np.full((len(names), len(names)), 0.1 / (len(names) - 1))
    np.fill_diagonal(matrix, 0.9)
    facts = {
        "schema": 1,
        "source": "folds",
        "samples": samples,
        "listed": int(worth.sum()),
        "class_names": names,
        "trust_is_probability": False,
        "rate": {
            "kind": kind,
            "lower": 0.0,
            "upper": None,
            "disagreement": 0.2,
            "sentence": "Cannot tell: the model disagrees with 20.0 % of the labels.",
            "explanation": "Mistakes that are always made in the same way do not show here.",
            "models": 2,
            "checked": 0,
            "wrong": 0,
        },
        "transition_matrix": matrix.tolist(),
        "reasons": REASONS,
        "check": rng.permutation(samples)[:draw].tolist(),
        "decisions": decisions or [],
        "expected_precision": [
            {"first": first, "lower": 0.0, "upper": 0.9 - first / 1000} for first in (10, 20, 50)
        ],
    }
    (path / "audit.json").write_text(json.dumps(facts), encoding="utf-8")
    if pictures:
        order = np.argsort(rank)[:pictures]
        shade = np.linspace(20, 235, 32)[None, :, None, None] * np.ones((1, 1, 32, 3))
        images = shade + rng.integers(-20, 20, (len(order), 32, 32, 3))
        images[..., 0] += 15 * (given[order] % 3)[:, None, None]
        images = np.clip(images, 0, 255).astype(np.uint8)
        np.savez(path / "thumbnails.npz", index=order, images=images)
    if items is not None:
        lines = "".join(json.dumps(item) + "\n" for item in items)
        (path / "items.jsonl").write_text(lines, encoding="utf-8")
    return path
