"""Audits of labels with known truth, beside cleanlab on the same folds.

    python benchmarks/audit.py --only digits,tables,agnews     # rows are added to results/audit
    python benchmarks/audit.py --only digits --seed 1          # fresh noise, folds and models
    python benchmarks/audit.py --table                         # all rows so far, and the targets

Each row is audited as ``edgemask audit`` does it (five folds; the default network and models of
other kinds), and once more with ``fast``. cleanlab gets the out-of-fold probabilities of the same
network, as its users would have them; beside it stands what it makes of our averaged ones.
CIFAR-10 and AG News are read below EDGEMASK_DATA.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cleanlab
import numpy as np
import torch
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.metrics import average_precision_score, roc_auc_score

import edgemask as em
from _measure import table
from edgemask import data, noise, runs

RESULTS = Path(__file__).parents[1] / "results" / "audit"


@dataclasses.dataclass(frozen=True)
class Problem:
    """Samples with given and true labels."""

    name: str
    samples: Any
    given: np.ndarray
    truth: np.ndarray
    options: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def wrong(self) -> np.ndarray:
        return self.given != self.truth


def digits(options: argparse.Namespace) -> Iterator[Problem]:
    pixels, truth = load_digits(return_X_y=True)
    images = np.round(pixels.reshape(-1, 8, 8) * 255 / 16).astype(np.uint8)
    for spec in ("clean", "sym:0.2", "sym:0.4", "asym:0.3"):
        made = noise.make(spec, truth, 10, dataset="digits", seed=options.seed)
        yield Problem(f"digits {spec}", images, made.noisy, truth)


def tables(options: argparse.Namespace) -> Iterator[Problem]:
    for name, read in (("cancer", load_breast_cancer), ("wine", load_wine)):
        features, truth = read(return_X_y=True)
        for spec in ("clean", "sym:0.2", "pair:0.15"):
            made = noise.make(spec, truth, int(truth.max()) + 1, seed=options.seed)
            yield Problem(f"{name} {spec}", features.astype(np.float32), made.noisy, truth)


def agnews(options: argparse.Namespace) -> Iterator[Problem]:
    import pandas as pd
    from sklearn.feature_extraction.text import TfidfVectorizer

    rows = pd.read_csv(Path(os.environ["EDGEMASK_DATA"]) / "noisy-agnews-train.csv")
    words = TfidfVectorizer(max_features=5000, min_df=2, sublinear_tf=True, ngram_range=(1, 2))
    features = words.fit_transform(rows["text"]).toarray().astype(np.float32)
    yield Problem("agnews", features, rows["label"].to_numpy(), rows["gt"].to_numpy())


def cifar(options: argparse.Namespace) -> Iterator[Problem]:
    root = Path(os.environ["EDGEMASK_DATA"])
    split = data.load("cifar10", root=root).train
    files = np.load(root / "cifar-n.npz", allow_pickle=False)
    rows = np.random.default_rng(0).permutation(len(split))[: options.samples]
    images = split.raw(torch.from_numpy(rows)).numpy()
    truth = files["c10_clean_label"][rows].astype(np.int64)
    sym = noise.make("sym:0.4", truth, 10, dataset="cifar10", seed=options.seed).noisy
    settings = {"set": {"model.width": options.width, "train.epochs": 20, "train.batch_size": 64}}
    for name, given in (
        ("clean", truth),
        ("sym:0.4", sym),
        ("human worst", files["c10_worse_label"][rows].astype(np.int64)),
        ("human aggregate", files["c10_aggre_label"][rows].astype(np.int64)),
    ):
        yield Problem(f"cifar10 {name}", images, given, truth, settings)


FAMILIES: dict[str, Callable[[argparse.Namespace], Iterator[Problem]]] = {
    "digits": digits,
    "tables": tables,
    "agnews": agnews,
    "cifar": cifar,
}


def ranking(wrong: np.ndarray, suspicion: np.ndarray) -> dict[str, float]:
    if not wrong.any():
        return {}
    return {
        "auroc": float(roc_auc_score(wrong, suspicion)),
        "ap": float(average_precision_score(wrong, suspicion)),
    }


def listing(wrong: np.ndarray, listed: np.ndarray) -> dict[str, float]:
    found = {"listed": float(listed.mean())}
    if wrong.any():
        hits = float((wrong & listed).sum())
        found["precision"] = hits / max(1.0, float(listed.sum()))
        found["recall"] = hits / float(wrong.sum())
        found["f1"] = 2 * hits / float(listed.sum() + wrong.sum())
    return found


def by_cleanlab(given: np.ndarray, probs: np.ndarray, wrong: np.ndarray) -> dict[str, Any]:
    start = time.process_time()
    probs = probs.astype(np.float64)
    probs /= probs.sum(axis=1, keepdims=True)
    listed = cleanlab.filter.find_label_issues(given, probs, n_jobs=1)
    quality = cleanlab.rank.get_label_quality_scores(given, probs)
    joint = cleanlab.count.estimate_joint(given, probs)
    cpu = time.process_time() - start
    return {
        **ranking(wrong, -quality),
        **listing(wrong, listed),
        "share": float(1 - np.trace(joint)),
        "cpu": cpu,
    }


def bundle_of(problem: Problem) -> data.DataBundle:
    """Return the samples as data without a test set."""
    x, y = problem.samples, problem.given
    made = data.from_arrays(x, y, x_test=x[:1], y_test=y[:1], name=problem.name.split()[0])
    return dataclasses.replace(made, tests={})


def audited(problem: Problem, folder: Path, seed: int) -> dict[str, Any]:
    bundle, wrong = bundle_of(problem), problem.wrong
    options = {"seed": seed, **problem.options}
    start = time.process_time()
    ours = em.audit_labels(bundle, out=folder / "folds", message=print, **options)
    cpu = time.process_time() - start
    start = time.process_time()
    fast = em.audit_labels(bundle, out=folder / "fast", fast=True, **options)
    cpu_fast = time.process_time() - start
    probs = runs.read_arrays(folder / "folds" / "probabilities.npz")
    del probs["ids"]
    mean = sum(probs.values()) / len(probs)
    rate = ours.rate
    return {
        "name": problem.name,
        "samples": len(wrong),
        "truth": float(wrong.mean()),
        "models": {k: float((p.argmax(1) != problem.given).mean()) for k, p in probs.items()},
        "verdict": rate.sentence,
        "kind": rate.kind,
        "lower": rate.lower,
        "upper": rate.upper,
        "ours": {**ranking(wrong, -ours.trust), **listing(wrong, ours.listed), "cpu": cpu},
        "expected_first_50": ours.expected_precision(50),
        "precision_first_50": float(wrong[ours.order[:50]].mean()),
        "fast": {**ranking(wrong, -fast.trust), **listing(wrong, fast.listed), "cpu": cpu_fast},
        "cleanlab": by_cleanlab(problem.given, probs["network"], wrong),
        "cleanlab_on_ours": by_cleanlab(problem.given, mean, wrong),
    }


def show(rows: list[dict[str, Any]]) -> None:
    def number(row: dict[str, Any], who: str, key: str) -> str:
        return f"{row[who][key]:.3f}" if key in row[who] else "-"

    table(
        ["", "truth %", "cleanlab %", "what is said"],
        [
            [
                r["name"],
                f"{100 * r['truth']:.1f}",
                f"{100 * r['cleanlab']['share']:.1f}",
                r["verdict"],
            ]
            for r in rows
        ],
    )
    for key in ("auroc", "ap", "f1", "precision", "recall", "listed"):
        print()
        names = ("ours", "fast", "cleanlab", "cleanlab_on_ours")
        table([key, *names], [[r["name"], *(number(r, who, key) for who in names)] for r in rows])
    print()
    table(
        ["CPU seconds", "ours", "fast", "fast / ours"],
        [
            [
                r["name"],
                f"{r['ours']['cpu']:.0f}",
                f"{r['fast']['cpu']:.0f}",
                f"{r['fast']['cpu'] / max(r['ours']['cpu'], 1e-9):.2f}",
            ]
            for r in rows
        ],
    )


def targets(rows: list[dict[str, Any]]) -> None:
    """Print what is to be reached, and whether it was."""

    def line(what: str, reached: bool, detail: str) -> None:
        print(f"  {'reached' if reached else 'MISSED':7}  {what}: {detail}")

    print()
    false = [
        r["name"]
        for r in rows
        if r["lower"] > r["truth"] or (r["upper"] is not None and r["upper"] < r["truth"])
    ]
    line("no false statement about the share", not false, ", ".join(false) or "none")
    wanted = [r for r in rows if r["name"] in ("digits clean", "digits sym:0.2", "digits sym:0.4")]
    wide = [r["name"] for r in wanted if r["kind"] not in ("between", "at most")]
    line("a narrow one on digits clean and symmetric", not wide, ", ".join(wide) or "all")
    noisy = [r for r in rows if r["truth"] > 0]
    for other in ("cleanlab", "cleanlab_on_ours"):
        for key, least in (("auroc", 0.005), ("f1", 0.03)):
            gain = {r["name"]: r["ours"][key] - r[other][key] for r in noisy}
            worst = min(gain, key=gain.__getitem__)
            mean = statistics.mean(gain.values())
            line(
                f"{key} against {other}: on no row worse by more than {least}, not on the mean",
                gain[worst] >= -least and mean >= 0,
                f"mean {mean:+.4f}, worst {gain[worst]:+.4f} ({worst})",
            )
    loss = {r["name"]: r["ours"]["auroc"] - r["fast"]["auroc"] for r in noisy}
    worst = max(loss, key=loss.__getitem__)
    line("fast within .02 of AUROC", loss[worst] <= 0.02, f"worst {-loss[worst]:+.4f} ({worst})")
    cost = {r["name"]: r["fast"]["cpu"] / max(r["ours"]["cpu"], 1e-9) for r in rows}
    worst = max(cost, key=cost.__getitem__)
    line("fast at half of the CPU", cost[worst] <= 0.5, f"worst {cost[worst]:.2f} ({worst})")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", default=",".join(FAMILIES), help="families of rows")
    parser.add_argument("--rows", default="", help="rows whose name holds this text")
    parser.add_argument("--seed", type=int, default=0, help="of label noise, folds and models")
    parser.add_argument("--samples", type=int, default=3000, help="images of CIFAR-10")
    parser.add_argument("--width", type=float, default=0.25, help="of the network on CIFAR-10")
    parser.add_argument("--folder", type=Path, help="keep the audits here, to go on later")
    parser.add_argument("--table", action="store_true", help="run nothing")
    options = parser.parse_args()
    torch.set_num_threads(1)
    results = RESULTS / f"seed-{options.seed}" if options.seed else RESULTS
    with tempfile.TemporaryDirectory() as temporary:
        for family in () if options.table else options.only.split(","):
            for problem in FAMILIES[family](options):
                if options.rows not in problem.name:
                    continue
                file = "".join(c if c.isalnum() else "-" for c in problem.name)
                folder = (options.folder or Path(temporary)) / file
                row = audited(problem, folder, options.seed)
                results.mkdir(parents=True, exist_ok=True)
                (results / f"{file}.json").write_text(json.dumps(row, indent=1) + "\n")
                print(f"{problem.name}: {row['verdict']}", flush=True)
    rows = [json.loads(path.read_text()) for path in sorted(results.glob("*.json"))]
    if rows:
        show(rows)
        targets(rows)


if __name__ == "__main__":
    main()
