"""The pieces of a run, made from its config (or handed in as objects): data, labels, networks."""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor, nn

from edgemask.data import DataBundle, Split, load, stratified_holdout
from edgemask.engine.config import Config, DataConfig
from edgemask.engine.randomness import seed_everything, stream
from edgemask.errors import UserError
from edgemask.methods import METHODS, Method
from edgemask.noise import NoisyLabels, make

if TYPE_CHECKING:
    from edgemask.data import Augment

__all__ = ["Job", "Objects", "SubSplit", "build_criterion", "build_job", "build_networks"]


@dataclass(frozen=True, kw_only=True)
class Objects:
    """What a caller hands in as objects instead of naming it in the config."""

    bundle: DataBundle | None = None
    """The data."""

    labels: NoisyLabels | None = None
    """The labels to train with."""

    model: nn.Module | Callable[[], nn.Module] | None = None
    """The network, or a function that makes one."""

    criterion: nn.Module | None = None
    """The loss, called as ``criterion(logits, target)`` or with the sample index as third."""

    method: Method | None = None
    """The way of learning."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """Data and labels of a run, cut to size."""

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

    tests: dict[str, Split]
    """Test sets by name, the main one first."""

    positions: NDArray[np.int64]
    """Where each trained sample stands in the dataset."""

    @functools.cached_property
    def given(self) -> Tensor:
        """The labels to train with, as a tensor."""
        return torch.from_numpy(self.noise.noisy.copy())


class SubSplit:
    """Some samples of a split, under new positions.

    Args:
        split: The samples.
        positions: Which of them, in order.
    """

    def __init__(self, split: Split, positions: NDArray[np.int64]):
        self.split = split
        self.positions = torch.from_numpy(np.ascontiguousarray(positions))
        self.labels = split.labels[positions]
        self.names: Sequence[str] | None = (
            None if split.names is None else [split.names[int(i)] for i in positions]
        )

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


def build_job(config: Config, objects: Objects) -> Job:
    """Load the data, make the labels wrong as asked, hold out, cut to size."""
    bundle = objects.bundle or load(config.data.spec, root=config.data.root, **config.data.options)
    if config.data.views is not None:
        bundle = _other_views(bundle, config.data.views)
    noise = objects.labels or _labels(config, bundle)
    if len(noise) != len(bundle.train):
        raise UserError(f"{len(noise)} labels for {len(bundle.train)} training samples")
    positions = np.arange(len(noise))
    held: NDArray[np.int64] | None = None
    if config.data.validation:
        positions, held = stratified_holdout(
            noise.noisy, config.data.validation, seed=config.noise.seed
        )
    positions = _limited(noise.noisy, positions, config.data)
    whole = len(positions) == len(noise)
    return Job(
        bundle=bundle,
        train=bundle.train if whole else SubSplit(bundle.train, positions),
        noise=noise if whole else noise.take(positions),
        validation=None if held is None else SubSplit(bundle.train, held),
        validation_labels=None if held is None else noise.noisy[held],
        tests={name: _first(split, config.data.test_limit) for name, split in bundle.tests.items()},
        positions=positions,
    )


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
        root=config.data.root,
    )


def _limited(
    labels: NDArray[np.int64], positions: NDArray[np.int64], config: DataConfig
) -> NDArray[np.int64]:
    """Keep ``limit`` positions, evenly over the classes, always the same ones."""
    if config.limit is None or config.limit >= len(positions):
        return positions
    order = np.random.default_rng(stream("subset", 0)).permutation(positions)
    given = labels[order]
    # The k-th sample of each class comes before the (k + 1)-th of any.
    rank = np.empty(len(order), dtype=np.int64)
    for label in np.unique(given):
        members = np.flatnonzero(given == label)
        rank[members] = np.arange(len(members))
    kept = order[np.argsort(rank, kind="stable")[: config.limit]]
    return np.sort(kept)


def _first(split: Split, limit: int | None) -> Split:
    if limit is None or limit >= len(split):
        return split
    order = np.random.default_rng(stream("subset", 1)).permutation(len(split))
    return SubSplit(split, np.sort(order[:limit]))


def build_networks(
    config: Config,
    method: Method,
    objects: Objects,
    *,
    num_classes: int,
    input_shape: Sequence[int],
    pretrained: bool = True,
) -> dict[str, nn.Module]:
    """Make the networks that a method names; weights depend on the seed, never on the head.

    Args:
        config: Model, head and seed.
        method: Says how many networks, and what they have besides.
        objects: A model that was handed in.
        num_classes: Number of classes.
        input_shape: Shape of one sample.
        pretrained: Whether to fetch published weights where the config asks for them.
    """
    nets: dict[str, nn.Module] = {}
    for number, name in enumerate(method.networks):
        seed_everything(stream("weights", config.train.seed, number))
        if objects.model is None:
            net = _own_model(config, method, number, num_classes, input_shape, pretrained)
        else:
            net = _foreign_model(objects.model, number)
            if config.head.name != "linear":
                from edgemask.heads import attach

                attach(net, config.head.name, at=config.head.at, **_head_options(config, number))
        nets[name] = method.extend(name, net)
    for name, source in method.copies.items():
        nets[name] = copy.deepcopy(nets[source]).requires_grad_(requires_grad=False)
    return nets


def _head_options(config: Config, number: int) -> dict[str, Any]:
    """Return the options of a head, the seed of its masks included.

    It comes from the run's seed, so that it is the same on all processes.
    """
    from edgemask.heads import HEADS

    options: dict[str, Any] = dict(config.head.options)
    if "seed" in inspect.signature(HEADS[config.head.name]).parameters:
        options["seed"] = stream("masks", config.train.seed, number)
    return options


def _own_model(
    config: Config,
    method: Method,
    number: int,
    classes: int,
    shape: Sequence[int],
    pretrained: bool,
) -> nn.Module:
    from edgemask.models import create

    options: dict[str, Any] = dict(config.model.options)
    return create(
        config.model.name,
        classes,
        input_shape=shape,
        width=config.model.width,
        head=config.head.name,
        head_options=_head_options(config, number),
        projector=method.projector,
        pretrained=config.model.pretrained if pretrained else False,
        **options,
    )


def _foreign_model(model: nn.Module | Callable[[], nn.Module], number: int) -> nn.Module:
    if not isinstance(model, nn.Module):
        return model()
    net = copy.deepcopy(model)
    if number:
        # A second network must not start as the first one did.
        for module in net.modules():
            reset = getattr(module, "reset_parameters", None)
            if callable(reset):
                reset()
    return net


def build_method(config: Config, objects: Objects) -> Method:
    """Make the method that the config names."""
    if objects.method is not None:
        return objects.method
    options: Any = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in config.method.options.items()
    }
    return METHODS[config.method.name](**options)


def build_criterion(
    config: Config, bundle: DataBundle, samples: int, objects: Objects
) -> nn.Module:
    """Make the loss that the config names."""
    if objects.criterion is not None:
        return _Indexed(objects.criterion)
    from edgemask.losses import build

    criterion: nn.Module = build(
        config.loss.name,
        num_classes=bundle.num_classes,
        num_samples=samples,
        **config.loss.options,
    )
    return criterion


class _Indexed(nn.Module):
    """A foreign loss that takes logits and targets, called as ours are."""

    def __init__(self, criterion: nn.Module):
        super().__init__()
        self.criterion = criterion
        self.takes_index = "index" in inspect.signature(criterion.forward).parameters
        groups = getattr(criterion, "parameter_groups", None)
        if groups is not None:
            self.parameter_groups = groups

    def forward(self, logits: Tensor, target: Tensor, index: Tensor | None = None) -> Tensor:
        """Call the loss, with the index if it knows what that is."""
        extra = {"index": index} if self.takes_index else {}
        loss: Tensor = self.criterion(logits, target, **extra)
        return loss
