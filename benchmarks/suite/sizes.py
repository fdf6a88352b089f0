"""Does it hold as the data grow? The same noise on 2,000 to 32,000 images of CIFAR-10.

Length and batch size are varied at 8,000 images, because the share of edges that SEM keeps falls
with the number of steps.
"""

from __future__ import annotations

import argparse
from statistics import fmean
from typing import Any

from candidates import CANDIDATES
from problems import SIZES
from reading import Records, cell, compare, hours, markdown, read

from edgemask.reproduce.compare import PairedDifference

_DRAWN = ("ce sem", "ce capped-0.3", "ce dropconnect-0.3", "ce scale-0.1", "elr")
_VARIED_AT = "cifar10-sym-60-of-8000"
_VARIED = {
    "four times as long": ["train.epochs=80"],
    "batches of 32": ["train.batch_size=32"],
    "batches of 512": ["train.batch_size=512"],
}

SETTINGS: dict[str, dict[str, Any]] = {
    "ce": CANDIDATES["ce"],
    **{name: CANDIDATES[name] for name in _DRAWN},
    **{
        f"{name}, {what}": {**CANDIDATES[name], "set": changes}
        for what, changes in _VARIED.items()
        for name in ("ce", "ce sem", "ce capped-0.3")
    },
}


def belongs(problem: str, setting: str) -> bool:
    """Whether a setting is run on a problem: length and batch size are varied on one."""
    return problem == _VARIED_AT or setting in ("ce", *_DRAWN)


def scale(options: argparse.Namespace) -> None:
    """Print gains over cross entropy by number of images, and by length and batch size."""
    records = read(options.out, "scale")
    rows = [["accuracy of ce", *(_mean(records[problem, "ce"]) for problem in SIZES)]]
    rows += [
        [name, *(cell(_gain(records, problem, name)) or "not run" for problem in SIZES)]
        for name in _DRAWN
    ]
    for text, name, key in (
        ("wrong labels memorised by ce, %", "ce", "memorised"),
        ("the same by ce sem, %", "ce sem", "memorised"),
        ("edges kept by ce sem at the end, %", "ce sem", "retention"),
    ):
        rows.append([text, *(_mean(records[problem, name], key) for problem in SIZES)])
    markdown(["gain over ce", *(f"{_images(problem):,} images" for problem in SIZES)], rows)
    print()
    rows = []
    for what in ("", *(f", {what}" for what in _VARIED)):
        for name in ("ce sem", "ce capped-0.3"):
            mine = records[_VARIED_AT, f"{name}{what}"]
            gain = _gain(records, _VARIED_AT, f"{name}{what}", f"ce{what}")
            kept = [100 * record["retention"] for record in mine.values()]
            share = f"{fmean(kept):.0f}" if kept else ""
            rows.append([f"{name}{what}", _mean(mine), cell(gain) or "-", share])
    markdown(["8,000 images", "accuracy", "over ce alike", "edges kept, %"], rows)
    print(f"\n{hours(records)}.")


def draw(options: argparse.Namespace) -> None:
    """Draw gains over cross entropy by number of images, and what SEM keeps as training goes on."""
    from matplotlib import pyplot as plt

    records = read(options.out, "scale")
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4))
    for name in _DRAWN:
        gains = {_images(problem): _gain(records, problem, name) for problem in SIZES}
        known = [(images, 100 * gain.mean) for images, gain in gains.items() if gain is not None]
        if known:
            left.plot(*zip(*known, strict=True), "o-", label=name)
    left.axhline(0, color="black", lw=0.8)
    left.set(xscale="log", xlabel="images", ylabel="gain over cross entropy, points")
    sizes = [_images(problem) for problem in SIZES]
    left.set_xticks(sizes, [f"{size:,}" for size in sizes])
    left.minorticks_off()
    left.legend(fontsize=7)
    for what in ("", *(f", {what}" for what in _VARIED)):
        for name, style in (("ce sem", "-"), ("ce capped-0.3", "--")):
            for record in list(records[_VARIED_AT, f"{name}{what}"].values())[:1]:
                epochs, kept = zip(*record["retention_by_epoch"], strict=True)
                right.plot(epochs, kept, style, label=f"{name}{what}")
    right.set(xlabel="epoch", ylabel="share of edges kept", ylim=(0, None))
    right.legend(fontsize=6)
    figure.tight_layout()
    figure.savefig(options.out / "scale.png", dpi=110)


def _gain(records: Records, problem: str, name: str, over: str = "ce") -> PairedDifference | None:
    mine, plain = records[problem, name], records[problem, over]
    return compare(mine, plain, sorted(set(mine) & set(plain)))


def _images(problem: str) -> int:
    return int(problem.rpartition("-")[2])


def _mean(runs: dict[int, Any], key: str = "accuracy") -> str:
    return f"{100 * fmean(r[key] for r in runs.values()):.1f}" if runs else "not run"
