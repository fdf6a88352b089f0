"""Data and labels of a run, by name or from objects."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor, nn

from edgemask._random import stream
from edgemask.audit import CorrectedLabels, Corrections, read_corrections
from edgemask.data import DataBundle, Split, load, stratified_holdout
from edgemask.data.splits import positions_by_class
from edgemask.engine.config import Config, DataConfig
from edgemask.errors import UserError
from edgemask.methods import Method
from edgemask.noise import NoisyLabels, make
from edgemask.runs import read_array

if TYPE_CHECKING:
    from edgemask.data import Augment

__all__ = [
    "ALL",
    "JoinedSplit",
    "Objects",
    "RunData",
    "SubSplit",
    "build_run_data",
    "everything",
    "given_corrections",
    "load_data",
]


ALL = "all"
"""The fold that leaves no sample out of training."""
_TESTED_WITHOUT_FOLD = 1000


@dataclass(frozen=True, kw_only=True)
class Objects:
    """Objects that are given instead of names in the config."""

    bundle: DataBundle | None = None
    """The data."""

    labels: NoisyLabels | None = None
    """The labels to train with."""

    corrections: Corrections | None = None
    """What a person decided about labels."""

    model: nn.Module | Callable[[], nn.Module] | None = None
    """The network, or a function that returns one."""

    head: Callable[..., nn.Module] | None = None
    """The head: a class with ``nn.Linear``'s signature, or a function that makes one."""

    criterion: nn.Module | Callable[..., nn.Module] | None = None
    """The loss, called as ``criterion(logits, target)`` or with the sample index as third; or its
    class."""

    method: Method | type[Method] | None = None
    """The method, or its class."""


@dataclass(frozen=True, kw_only=True)
class RunData:
    """Data and labels of a run, after holding out and limiting."""

    bundle: DataBundle
    """The dataset."""

    train: Split
    """The samples that are trained on."""

    noise: NoisyLabels
    """Their labels, given and (where known) true."""

    validation: Split | None
    """Samples held out of the noisy data, with the noisy labels below."""

    validation_labels: NDArray[np.int64] | None
    """Their given labels."""

    clean_validation: Split | None = None
    """The dataset's clean validation samples, where they choose the epoch."""

    tests: dict[str, Split]
    """Test sets by name, the main one first."""

    positions: NDArray[np.int64]
    """Position of each trained sample in the dataset."""

    corrections: CorrectedLabels | None = None
    """The corrected labels of the training samples, then those of the test sets."""

    @property
    def validations(self) -> dict[str, tuple[Split, NDArray[np.int64]]]:
        """Validation samples and their labels, by prefix of their metrics."""
        found: dict[str, tuple[Split, NDArray[np.int64]]] = {}
        if self.validation is not None and self.validation_labels is not None:
            found["validation"] = self.validation, self.validation_labels
        if self.clean_validation is not None:
            found["clean_validation"] = self.clean_validation, self.clean_validation.labels
        return found

    @property
    def named_tests(self) -> dict[str, Split]:
        """Test sets by prefix of their metrics: ``test`` for the main one, then ``test.<name>``."""
        return {
            f"test.{name}" if number else "test": split
            for number, (name, split) in enumerate(self.tests.items())
        }

    @functools.cached_property
    def given(self) -> Tensor:
        """The labels to train with, as a tensor."""
        return torch.from_numpy(self.noise.noisy.copy())


class SubSplit:
    """A part of a split, with positions of its own.

    Args:
        split: The samples.
        positions: The samples to take, in order.
        labels: Labels of all samples of the split, in place of its own.
    """

    def __init__(
        self,
        split: Split,
        positions: NDArray[np.int64],
        labels: NDArray[np.int64] | None = None,
    ):
        self.split = split
        self.positions = torch.from_numpy(np.ascontiguousarray(positions))
        self.labels = (split.labels if labels is None else labels)[positions]
        self.names: Sequence[str] | None = (
            None if split.names is None else [split.names[int(i)] for i in positions]
        )
        texts = getattr(split, "texts", None)
        self.texts = None if texts is None else [texts[int(i)] for i in positions]

    def __len__(self) -> int:
        return len(self.labels)

    def views(
        self, index: Tensor, augments: Sequence[Augment], generators: Sequence[Generator]
    ) -> tuple[Tensor, ...]:
        """Return one float tensor per augmentation for the samples at ``index``."""
        return self.split.views(self.positions[index], augments, generators)

    def raw(self, index: Tensor) -> Tensor:
        """Return the samples as stored."""
        return self.split.raw(self.positions[index])


class JoinedSplit:
    """Several splits as one, in their order.

    Args:
        splits: The splits; samples of all have one shape.
        names: What to call each sample.
    """

    def __init__(self, splits: Sequence[Split], names: Sequence[str]):
        self.splits = tuple(splits)
        self.labels = np.concatenate([split.labels for split in splits])
        self.names: Sequence[str] | None = names
        self._ends = torch.tensor([len(split) for split in splits]).cumsum(0)

    def __len__(self) -> int:
        return len(self.labels)

    def views(
        self, index: Tensor, augments: Sequence[Augment], generators: Sequence[Generator]
    ) -> tuple[Tensor, ...]:
        """Return one float tensor per augmentation for the samples at ``index``."""
        parts = self._parts(index)
        made = [split.views(own, augments, generators) for split, own, _ in parts]
        order = torch.cat([places for _, _, places in parts]).argsort()
        return tuple(torch.cat(views)[order] for views in zip(*made, strict=True))

    def raw(self, index: Tensor) -> Tensor:
        """Return the samples as stored."""
        parts = self._parts(index)
        order = torch.cat([places for _, _, places in parts]).argsort()
        return torch.cat([split.raw(own) for split, own, _ in parts])[order]

    def _parts(self, index: Tensor) -> list[tuple[Split, Tensor, Tensor]]:
        """Return the splits that an index names, the positions in each, and their places in it."""
        which = torch.bucketize(index, self._ends, right=True)
        starts = self._ends - torch.tensor([len(split) for split in self.splits])
        found = []
        for number, split in enumerate(self.splits):
            places = (which == number).nonzero().squeeze(1)
            if len(places):
                found.append((split, index[places] - starts[number], places))
        return found


def everything(bundle: DataBundle) -> DataBundle:
    """Return a dataset whose training samples are all samples, test ones included.

    A test set that has several names counts once. Samples are called as in :func:`sample_names`;
    where names are the row numbers of one table, the order is that of the table.
    """
    tests, names = distinct_tests(bundle), sample_names(bundle)
    splits = [bundle.train, *(split for _, split in tests)]
    joined: Split = JoinedSplit(splits, names)
    true = bundle.true_labels
    if true is not None:
        true = np.concatenate([true, *(split.labels for _, split in tests)])
    if bundle.train.names is not None and set(names) == set(map(str, range(len(names)))):
        order = np.argsort(np.array(names, dtype=np.int64))
        joined = SubSplit(joined, order)
        true = None if true is None else true[order]
    return dataclasses.replace(
        bundle,
        train=joined,
        tests={},
        validation=None,
        true_labels=true,
        clean_known=bundle.clean_known and bundle.clean_test,
        clean_test=False,
    )


def load_data(config: DataConfig) -> DataBundle:
    """Read the dataset that a config names."""
    return load(config.spec, root=config.root, **config.options)


def build_run_data(config: Config, objects: Objects) -> RunData:
    """Load the data, apply the label noise, hold out validation samples and limit the size."""
    bundle = objects.bundle or load_data(config.data)
    if config.data.views is not None:
        bundle = _other_views(bundle, config.data.views)
    if config.data.fold is not None:
        bundle = everything(bundle)
    noise = objects.labels or _labels(config, bundle)
    if len(noise) != len(bundle.train):
        raise UserError(f"{len(noise)} labels for {len(bundle.train)} training samples")
    corrections = None
    positions = np.arange(len(noise))
    if config.data.fold is not None:
        positions, inside = _fold_parts(config.data.fold, len(noise))
    held: NDArray[np.int64] | None = None
    if config.data.validation:
        if config.data.fold is not None:
            raise UserError("data.fold and data.validation cannot be had together")
        positions, held = stratified_holdout(
            noise.noisy, config.data.validation, seed=config.noise.seed
        )
    if config.data.corrections is not None:
        decisions = given_corrections(config, objects)
        bundle, noise, corrections = _corrected(bundle, noise, decisions)
        # The division is that of the labels as given, so that runs with and without compare.
        positions = positions[corrections.kept[positions]]
        held = None if held is None else held[corrections.kept[held]]
        if not len(positions):
            raise UserError("the corrections drop every training sample")
    if config.data.fold is not None:
        tested = SubSplit(bundle.train, inside, noise.noisy)
        bundle = dataclasses.replace(bundle, tests={"test": tested})
    positions = _limited(noise.noisy, positions, config.data)
    whole = len(positions) == len(noise)
    return RunData(
        bundle=bundle,
        train=bundle.train if whole else SubSplit(bundle.train, positions),
        noise=noise if whole else noise.take(positions),
        validation=None if held is None else SubSplit(bundle.train, held),
        validation_labels=None if held is None else noise.noisy[held],
        clean_validation=_clean_validation(config, bundle),
        tests={name: _first(split, config.data.test_limit) for name, split in bundle.tests.items()},
        positions=positions,
        corrections=corrections,
    )


def _fold_parts(fold: str, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the samples outside a fold, to train on, and those inside, to test on."""
    if fold == ALL:
        outside = np.arange(count)
        inside = np.sort(np.random.default_rng(0).permutation(outside)[:_TESTED_WITHOUT_FOLD])
    else:
        path, _, number = fold.rpartition("#")
        folds = read_array(Path(path))
        if folds.shape != (count,):
            raise UserError(
                f"data.fold: {path} is for {folds.size} samples, and the data have {count}"
            )
        outside, inside = np.flatnonzero(folds != int(number)), np.flatnonzero(folds == int(number))
    if not len(outside) or not len(inside):
        raise UserError(f"data.fold: no samples inside or outside of the fold {fold!r}")
    return outside, inside


def given_corrections(config: Config, objects: Objects) -> Corrections:
    """Return the decisions about labels that a config names, or that were given as an object."""
    given = objects.corrections
    return read_corrections(config.data.corrections) if given is None else given


def distinct_tests(bundle: DataBundle) -> list[tuple[str, Split]]:
    """Return the test sets with their names, each once."""
    return list({id(split): (name, split) for name, split in bundle.tests.items()}.values())


def sample_names(bundle: DataBundle) -> list[str]:
    """Return what training samples are called, then those of the test sets.

    Samples without names are called by their position in the training set, or in the test set with
    its name before it.
    """
    names = list(bundle.train.names or map(str, range(len(bundle.train))))
    for name, split in distinct_tests(bundle):
        names += list(split.names or (f"{name} {row}" for row in range(len(split))))
    return names


def _corrected(
    bundle: DataBundle, noise: NoisyLabels, corrections: Corrections
) -> tuple[DataBundle, NoisyLabels, CorrectedLabels]:
    """Return data with corrected labels; dropped samples leave the test sets, not yet the others.

    Test samples are corrected, too.
    """
    tests = distinct_tests(bundle)
    labels = np.concatenate([noise.noisy, *(split.labels for _, split in tests)])
    result = corrections.apply(sample_names(bundle), labels, bundle.class_names)
    corrected: dict[int, Split] = {}
    start = len(noise)
    for _, split in tests:
        part = slice(start, start + len(split))
        kept = np.flatnonzero(result.kept[part])
        corrected[id(split)] = SubSplit(split, kept, result.labels[part])
        start = part.stop
    counts = result.summary(bundle.class_names)
    note = (
        f"corrections: labels kept {counts['kept']}, changed {counts['relabelled']}; samples "
        f"dropped {counts['dropped']}"
    )
    bundle = dataclasses.replace(
        bundle,
        notes=(*bundle.notes, note),
        tests={name: corrected.get(id(split), split) for name, split in bundle.tests.items()},
        validation=corrected.get(id(bundle.validation), bundle.validation),
    )
    return bundle, dataclasses.replace(noise, noisy=result.labels[: len(noise)]), result


def _clean_validation(config: Config, bundle: DataBundle) -> Split | None:
    if config.train.select != "clean_validation":
        return None
    if bundle.validation is None or not len(bundle.validation):
        raise UserError(
            f"train.select is 'clean_validation', and the dataset {bundle.name!r} has no clean "
            "validation samples; hold out noisy ones (data.validation=0.1, "
            "train.select=validation), or leave train.select at 'last'"
        )
    return bundle.validation


def _other_views(bundle: DataBundle, name: str) -> DataBundle:
    from edgemask.data.views import RECIPES

    recipe = RECIPES[name]
    constants = bundle.normalisation
    if recipe.mean is not None and recipe.std is not None:
        constants = (recipe.mean, recipe.std)
    return dataclasses.replace(bundle, recipe=name, normalisation=constants)


def _labels(config: Config, bundle: DataBundle) -> NoisyLabels:
    labels = bundle.train.labels
    spec = config.noise.spec
    if spec == "none":
        if bundle.true_labels is not None:
            return NoisyLabels(
                clean=bundle.true_labels,
                noisy=labels,
                num_classes=bundle.num_classes,
                kind="given",
            )
        spec = "clean" if bundle.clean_known else "given"
    features = None
    if spec.startswith(("idn", "instance")):
        features = bundle.train.raw(torch.arange(len(labels))).flatten(1).numpy()
    return make(
        spec,
        labels,
        bundle.num_classes,
        dataset=bundle.name,
        protocol=config.noise.protocol,
        seed=config.noise.seed,
        features=features,
        root=config.data.root or os.environ.get("EDGEMASK_DATA"),
    )


def _limited(
    labels: NDArray[np.int64], positions: NDArray[np.int64], config: DataConfig
) -> NDArray[np.int64]:
    """Return ``limit`` positions, evenly over the classes, always the same ones."""
    if config.limit is None or config.limit >= len(positions):
        return positions
    order = np.random.default_rng(stream("subset", 0)).permutation(positions)
    given = labels[order]
    # The k-th sample of each class comes before the (k + 1)-th of any.
    rank = np.empty(len(order), dtype=np.int64)
    for members in positions_by_class(given):
        rank[members] = np.arange(len(members))
    kept = order[np.argsort(rank, kind="stable")[: config.limit]]
    return np.sort(kept)


def _first(split: Split, limit: int | None) -> Split:
    if limit is None or limit >= len(split):
        return split
    order = np.random.default_rng(stream("subset", 1)).permutation(len(split))
    return SubSplit(split, np.sort(order[:limit]))
