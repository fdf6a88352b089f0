"""The problems of the suite: real data with wrong labels of a known kind, and clean test labels.

A problem gives the arguments of a run for a seed. The seed decides the split, the noise, the
initial weights and the order of the data, so that candidates are paired by it. Tables and news
texts are a dataset of the name ``suite``, so that a worker process can read them, too.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import datasets
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

import edgemask as em
from edgemask import noise
from edgemask.data import DataBundle, from_arrays, load

Arguments = dict[str, Any]

TABLES: dict[str, Callable[[], Any]] = {
    "wine": datasets.load_wine,
    "cancer": datasets.load_breast_cancer,
    "digits-features": datasets.load_digits,
}
NOISES = {"clean": "clean", "sym-20": "sym:0.2", "sym-40": "sym:0.4", "asym-30": "asym:0.3"}
RARE_SHARE = 0.05
# Settings of the reproduction's preset `quick`, which was chosen on plain cross entropy alone.
CIFAR_NETWORK = {"name": "cnn8", "width": 0.25}
CIFAR_EPOCHS = 20
CIFAR_IMAGES = {"cifar10": 4000, "cifar100": 5000}
CIFAR_LR = {"cifar10": 0.01, "cifar100": 0.05}
# Those of the preset `laptop-bf16`.
LAPTOP_IMAGES, LAPTOP_EPOCHS = 8000, 30


@dataclass(frozen=True)
class Problem:
    """A noisy classification problem with clean test labels."""

    name: str
    family: str
    """Gains are averaged within a family first."""
    noisy: bool
    arguments: Callable[[int], Arguments]
    """Seed -> arguments of ``em.fit``, all of them plain values."""
    classes: int = 10
    """The number of classes, stated where it is more than ten."""
    lr: float = 0.01
    """The learning rate, for candidates that change it."""
    needs_data: bool = False
    """Whether it reads a dataset below ``EDGEMASK_DATA``."""
    costly: bool = False
    """Whether a run takes so long that few seeds have to do."""
    test_every: int = 1
    """Epochs between tests where a candidate chooses one of them."""

    @property
    def choosing_seeds(self) -> range:
        """The seeds that the default is chosen on."""
        return range(1) if self.costly else range(10)

    @property
    def fresh_seeds(self) -> range:
        """The seeds that it is reported on."""
        return range(1, 4) if self.costly else range(10, 30)


def read_table(name: str, spec: str, seed: int, *, rare: bool = False) -> DataBundle:
    """Return a table with standardised columns; with ``rare`` its smallest class is a 20th."""
    source = TABLES[name]()
    x, y = source.data.astype(np.float32), source.target
    x, x_test, y, y_test = train_test_split(x, y, test_size=0.3, random_state=seed, stratify=y)
    if rare:
        x, y = _thin(x, y, seed)
    scaler = StandardScaler().fit(x)
    labels = _labels(y, spec, int(source.target.max()) + 1, seed)
    return from_arrays(
        scaler.transform(x),
        labels.noisy,
        y_clean=y,
        x_test=scaler.transform(x_test),
        y_test=y_test,
        class_names=[str(name) for name in source.target_names],
        name=name,
    )


def _labels(y: np.ndarray, spec: str, classes: int, seed: int) -> noise.NoisyLabels:
    """Put noise on labels; asymmetric noise sends every class to the next, of two the first."""
    kind, _, rate = spec.partition(":")
    if kind != "asym":
        return noise.make(spec, y, classes, seed=seed)
    matrix = np.eye(classes)
    for label in range(classes if classes > 2 else 1):
        matrix[label, label] -= float(rate)
        matrix[label, (label + 1) % classes] += float(rate)
    return noise.from_matrix(y, matrix, classes, seed=seed)


def _thin(x: np.ndarray, y: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Leave so many samples of the smallest class that it is a 20th of the data."""
    rare = np.bincount(y).argmin()
    members = np.flatnonzero(y == rare)
    others = len(y) - len(members)
    count = round(RARE_SHARE * others / (1 - RARE_SHARE))
    kept = np.random.default_rng(seed).choice(members, count, replace=False)
    rows = np.sort(np.concatenate([np.flatnonzero(y != rare), kept]))
    return x[rows], y[rows]


def _at_the_end(epochs: int, **train: Any) -> Arguments:
    """Return settings of a run that is tested and recorded after its last epoch alone."""
    return {
        "train": {"epochs": epochs, "record_every": epochs, **train},
        "eval": {"every": epochs},
    }


def digits(spec: str, seed: int) -> Arguments:
    """Return the digits as pictures of 8 x 8 pixels."""
    settings = _at_the_end(30)
    if spec != "clean":
        settings["noise"] = {"seed": seed}
    return {
        "data": "digits",
        "noise": spec,
        "settings": settings,
        "batch_size": 128,
        "seed": seed,
    }


def cifar(
    dataset: str, spec: str, seed: int, *, images: int | None = None, epochs: int = CIFAR_EPOCHS
) -> Arguments:
    """Return a part of CIFAR-10 or CIFAR-100."""
    settings: dict[str, Any] = {
        **_at_the_end(epochs, precision="bf16"),
        "model": CIFAR_NETWORK,
        "data": {"limit": images or CIFAR_IMAGES[dataset], "views": f"{dataset}/flip"},
        "optim": {"lr": CIFAR_LR[dataset]},
    }
    if not spec.startswith(("clean", "human")):
        settings["noise"] = {"seed": seed, "protocol": "jal"}
    return {
        "data": dataset,
        "noise": spec,
        "seed": seed,
        "recipe": f"{dataset}/ce",
        "settings": settings,
    }


def read_news() -> DataBundle:
    """Return news texts with labels by people, as TF-IDF features."""
    import pandas as pd
    from sklearn.feature_extraction.text import TfidfVectorizer

    root = Path(os.environ["EDGEMASK_DATA"])
    train = pd.read_csv(root / "noisy-agnews-train.csv")
    test = pd.read_csv(root / "noisy-agnews-test.csv")
    vectorizer = TfidfVectorizer(sublinear_tf=True, max_features=2000, stop_words="english")
    return from_arrays(
        vectorizer.fit_transform(train["text"]).toarray().astype(np.float32),
        train["label"].to_numpy(),
        y_clean=train["gt"].to_numpy(),
        x_test=vectorizer.transform(test["text"]).toarray().astype(np.float32),
        y_test=test["gt"].to_numpy(),
        name="agnews",
    )


def read_few_photographs(seed: int) -> DataBundle:
    """Return 600 images of CIFAR-10 as a person's own photographs, with 2,000 to test on."""
    source = load("cifar10", root=os.environ["EDGEMASK_DATA"])
    rng = np.random.default_rng(seed)
    drawn = []
    for split, count in ((source.train, 600), (source.test, 2000)):
        rows = rng.permutation(len(split))[:count]
        drawn += [split.data.numpy()[rows], split.labels[rows]]
    x, y, x_test, y_test = drawn
    return from_arrays(x, y, y_clean=y, x_test=x_test, y_test=y_test, name="few-photographs")


def read_clusters(seed: int, *, classes: int = 1000, samples: int = 10_000) -> DataBundle:
    """Return made data: clusters around 1,000 centres, ten samples of each to train on."""
    rng = np.random.default_rng(seed)
    centres = 0.62 * rng.normal(size=(classes, 48))

    def draw(count: int) -> tuple[np.ndarray, np.ndarray]:
        labels = np.arange(count) % classes
        return (centres[labels] + rng.normal(size=(count, 48))).astype(np.float32), labels

    (x, y), (x_test, y_test) = draw(samples), draw(samples // 2)
    return from_arrays(x, y, y_clean=y, x_test=x_test, y_test=y_test, name="clusters")


@functools.lru_cache(maxsize=4)
def read_features(problem: str, seed: int) -> DataBundle:
    """Return the data of a problem whose samples are rows of features."""
    if problem == "agnews":
        return read_news()
    if problem == "few-photographs-clean":
        return read_few_photographs(seed)
    if problem == "clusters-clean":
        return read_clusters(seed)
    for table in TABLES:
        if problem.startswith(f"{table}-"):
            rare = problem.startswith(f"{table}-rare-")
            kind = problem.removeprefix(f"{table}-rare-" if rare else f"{table}-")
            return read_table(table, NOISES[kind], seed, rare=rare)
    raise em.UserError(f"the suite has no table {problem!r}")


def features(
    problem: str,
    seed: int,
    *,
    epochs: int = 40,
    batch_size: int | None = 32,
    lr: float | None = 0.01,
    network: dict[str, Any] | None = None,
) -> Arguments:
    """Return the arguments of a run on data that this module reads; None: what a person gets."""
    return {
        "data": "suite",
        "settings": {
            "data": {"options": {"problem": problem, "seed": seed}},
            "model": network or {"name": "mlp"},
            **_at_the_end(epochs),
        },
        "batch_size": batch_size,
        "lr": lr,
        "seed": seed,
    }


def _all() -> list[Problem]:
    problems = []
    for name in TABLES:
        for kind in NOISES:
            problem = f"{name}-{kind}"
            arguments = functools.partial(features, problem)
            problems.append(Problem(problem, "tables", kind != "clean", arguments))
    for kind in ("clean", "sym-20"):
        problem = f"cancer-rare-{kind}"
        arguments = functools.partial(features, problem)
        problems.append(Problem(problem, "rare class", kind != "clean", arguments))
    for kind in ("clean", "sym-40"):
        arguments = functools.partial(digits, NOISES[kind])
        problems.append(Problem(f"digits-{kind}", "small pictures", kind != "clean", arguments))
    for dataset, kind, spec, family in (
        ("cifar10", "clean", "clean", "photographs"),
        ("cifar10", "sym-40", "sym:0.4", "photographs"),
        ("cifar10", "sym-60", "sym:0.6", "photographs"),
        ("cifar10", "asym-40", "asym:0.4", "photographs"),
        ("cifar10", "human-worst", "human:worst", "labels by people"),
        ("cifar10", "human-aggregate", "human:aggregate", "labels by people"),
        ("cifar100", "clean", "clean", "many classes"),
        ("cifar100", "sym-40", "sym:0.4", "many classes"),
    ):
        arguments = functools.partial(cifar, dataset, spec)
        name = f"{dataset}-{kind}"
        classes = int(dataset.removeprefix("cifar"))
        problems.append(
            Problem(
                name,
                family,
                kind != "clean",
                arguments,
                classes,
                needs_data=True,
                costly=True,
                test_every=2,
            )
        )
    arguments = functools.partial(features, "clusters-clean", epochs=20, batch_size=128, lr=0.05)
    problems.append(
        Problem("clusters-clean", "many classes", noisy=False, arguments=arguments, classes=1000)
    )
    arguments = functools.partial(features, "agnews", epochs=20, batch_size=64)
    problems.append(
        Problem(
            "agnews",
            "labels by people",
            noisy=True,
            arguments=arguments,
            needs_data=True,
            costly=True,
        )
    )
    name = "few-photographs-clean"
    arguments = functools.partial(
        features, name, epochs=20, batch_size=None, lr=None, network=CIFAR_NETWORK
    )
    problems.append(Problem(name, "photographs", noisy=False, arguments=arguments, needs_data=True))
    return problems


PROBLEMS = {problem.name: problem for problem in _all()}


def _at_laptop_scale() -> list[Problem]:
    """CIFAR-10 with twice the images, for half as many epochs again."""
    changed = {"images": LAPTOP_IMAGES, "epochs": LAPTOP_EPOCHS}
    return [
        replace(problem, arguments=functools.partial(problem.arguments, **changed))
        for problem in PROBLEMS.values()
        if problem.name.startswith("cifar10-")
    ]


LAPTOP = {problem.name: problem for problem in _at_laptop_scale()}


def _sizes() -> list[Problem]:
    """The same noise on more and more images."""
    problems = []
    for images in (2000, 8000, 32000):
        arguments = functools.partial(cifar, "cifar10", "sym:0.6", images=images)
        name = f"cifar10-sym-60-of-{images}"
        problems.append(
            Problem(name, "scale", noisy=True, arguments=arguments, needs_data=True, costly=True)
        )
    return problems


SIZES = {problem.name: problem for problem in _sizes()}

em.register("dataset", "suite", read_features)
