"""Published settings of the losses, with their sources."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from edgemask.errors import UserError, unknown_name
from edgemask.losses._published import (
    FAMILIES,
    OWN_SOURCE,
    PARAMETERS,
    PENALTIES,
    SOURCES,
    TRAINING,
)
from edgemask.losses.base import Loss, Reduction
from edgemask.losses.build import build, canonical, loss_class

__all__ = ["Preset", "preset", "preset_settings"]

Noise = Literal["symmetric", "asymmetric"]

# Clamps of the probabilities: the JAL code has one for all its losses, the others another.
_MIN_PROB = {"jal": 1e-8, "anl": 1e-7, "apl": 1e-7, "alf": 1e-7}
_CLASSES = {"cifar10": 10, "cifar100": 100, "webvision": 50, "clothing1m": 14, "mnist": 10}
_ALIASES = {
    "cifar-10": "cifar10",
    "cifar-100": "cifar100",
    "webvision-mini": "webvision",
    "mini-webvision": "webvision",
    "clothing-1m": "clothing1m",
}
_STAND_INS = {
    "cifar10n": "cifar10",
    "cifar100n": "cifar100",
    "cifar80n-o": "cifar100",
    "fashion-mnist": "mnist",
    "webvision": "cifar100",
}


@dataclass(frozen=True, kw_only=True)
class Preset:
    """Hyper-parameters of a loss and the training settings that they were published with.

    A setting that the source does not state is None.
    """

    loss: str
    """Name of the loss."""
    dataset: str | None
    """The dataset that was asked for."""
    published_for: str | None
    """The dataset whose numbers these are; None where the loss has no published numbers."""
    params: Mapping[str, float] = field(default_factory=dict)
    """Arguments of the loss."""
    source: str
    """Where the numbers come from, in words, with address and commit."""
    url: str | None = None
    """Address of the source."""
    commit: str | None = None
    """Commit of the source."""
    optimiser: str | None = None
    """Name of the optimiser."""
    lr: float | None = None
    """Learning rate at the start."""
    momentum: float | None = None
    """Momentum of the optimiser."""
    nesterov: bool = False
    """Whether the momentum is Nesterov's."""
    weight_decay: float | None = None
    """L2 penalty, as weight decay of the optimiser."""
    l1: float = 0.0
    """L1 penalty: this times Σ|w| over all parameters is added to the loss before backward."""
    epochs: int | None = None
    """Number of epochs."""
    batch_size: int | None = None
    """Samples a step, over all devices."""
    grad_clip: float | None = None
    """Largest norm of the whole gradient, the L1 penalty's part included."""
    schedule: str | None = None
    """Learning-rate schedule: cosine, cosine-restarts, step or milestones; stepped every epoch."""
    min_lr: float | None = None
    """Learning rate at the end of a cosine."""
    step_size: int | None = None
    """Epochs between two steps, or between two restarts."""
    gamma: float | None = None
    """Factor of the learning rate at a step or milestone."""
    milestones: tuple[int, ...] = ()
    """Epochs at which the learning rate falls."""

    @property
    def published(self) -> bool:
        """Whether the numbers were published for the very dataset that was asked for."""
        return self.published_for is not None and self.published_for == self.dataset


def preset_settings(
    name: str,
    dataset: str | None = None,
    *,
    source: str | None = None,
    noise: Noise = "symmetric",
    num_classes: int | None = None,
) -> Preset:
    """Look up the published settings of a loss.

    The default source is the code of JAL, whose table the paper's baselines use; where that has no
    entry, the repository of the loss's own authors, then the others.

    A dataset without published numbers gets those of a stand-in, and the returned ``source`` and
    ``published_for`` say so: CIFAR-100's for 50 classes and more, else CIFAR-10's (where a loss is
    published for one of the two only, that one's). A loss without any published numbers gets the
    defaults of its definition.

    Args:
        name: Name of the loss.
        dataset: Name of the dataset: cifar10, cifar100, webvision, clothing1m, mnist, or any other.
        source: One of jal, anl, apl, alf, elr, sop, to ask for that repository's numbers.
        noise: Kind of label noise; only ELR, SOP and APL's NFL tell them apart.
        num_classes: Number of classes, for the choice of a stand-in.

    Raises:
        UserError: If the name is unknown, or the source has no numbers for this loss.

    Example:
        >>> settings = preset_settings("jal", "cifar100")
        >>> settings.params, settings.l1
        ({'alpha': 5.0, 'beta': 1.0, 'a': 20.0}, 5e-06)
    """
    name = canonical(name)
    if source is not None and source not in SOURCES:
        raise unknown_name("source of presets", source, SOURCES)
    if noise not in ("symmetric", "asymmetric"):
        raise UserError(f"noise={noise!r}: expected 'symmetric' or 'asymmetric'")
    dataset = _normalise(dataset)
    for candidate in _candidates(dataset, num_classes):
        for place in _places(name, source):
            row = _row(PARAMETERS[place].get(name, {}), candidate, noise)
            if row is not None:
                return _compose(name, dataset, candidate, place, row, noise)
    if source is not None:
        known = ", ".join(PARAMETERS[source])
        raise UserError(f"source {source!r} has no numbers for the loss {name!r}; it has: {known}")
    return _defaults(name, dataset, num_classes, noise)


def preset(
    name: str,
    dataset: str | None = None,
    *,
    source: str | None = None,
    noise: Noise = "symmetric",
    num_classes: int | None = None,
    num_samples: int | None = None,
    reduction: Reduction = "mean",
    **overrides: Any,
) -> Loss:
    """Build a loss with its published hyper-parameters.

    Args:
        name: Name of the loss; ``jal`` and ``anl`` mean JAL-CE and ANL-CE.
        dataset: Name of the dataset; see :func:`preset_settings` for those without an entry.
        source: The repository to take the numbers from; by default the code of JAL.
        noise: Kind of label noise; only ELR, SOP and APL's NFL tell them apart.
        num_classes: Number of classes; known for the published datasets.
        num_samples: Size of the training set, for the losses with a memory.
        reduction: ``"mean"`` or ``"none"``.
        **overrides: Arguments of the loss that replace published ones.

    Returns:
        The loss; its ``settings`` hold the source and the published training settings.

    Example:
        >>> preset("jal", "cifar10")
        JALCELoss(alpha=1.0, beta=1.0, a=30.0, reduction='mean')
    """
    settings = preset_settings(name, dataset, source=source, noise=noise, num_classes=num_classes)
    if num_classes is None:
        num_classes = _CLASSES.get(settings.dataset or "")
    options = {**settings.params, **overrides, "reduction": reduction}
    loss = build(name, num_classes=num_classes, num_samples=num_samples, **options)
    loss.settings = settings
    return loss


def _normalise(dataset: str | None) -> str | None:
    if dataset is None:
        return None
    plain = dataset.strip().lower().replace("_", "-")
    plain = _ALIASES.get(plain, plain)
    return plain if plain in _CLASSES or plain in _STAND_INS else dataset


def _candidates(dataset: str | None, num_classes: int | None) -> list[str]:
    """Return the dataset, then its stand-ins, best first."""
    classes = num_classes or _CLASSES.get(dataset or "", 0)
    general = ["cifar100", "cifar10"] if classes >= 50 else ["cifar10", "cifar100"]
    named = _STAND_INS.get(dataset or "")
    order = [dataset, named, *general]
    return list(dict.fromkeys(entry for entry in order if entry is not None))


def _places(name: str, source: str | None) -> list[str]:
    if source is not None:
        return [source]
    return list(dict.fromkeys(["jal", OWN_SOURCE.get(name, "jal"), *PARAMETERS]))


def _row(
    rows: Mapping[str, Mapping[str, Any]], dataset: str, noise: Noise
) -> Mapping[str, Any] | None:
    return rows.get(f"{dataset}/{noise}", rows.get(dataset))


def _training(name: str, place: str, dataset: str, noise: Noise) -> dict[str, Any]:
    penalties = PENALTIES.get(place, {}).get(FAMILIES.get(name, ""), {})
    return {
        **(_row(TRAINING[place], dataset, noise) or {}),
        **(_row(penalties, dataset, noise) or {}),
    }


def _compose(
    name: str,
    dataset: str | None,
    found: str,
    place: str,
    row: Mapping[str, Any],
    noise: Noise,
) -> Preset:
    what, url, commit = SOURCES[place]
    text = f"{what}, {found} settings ({url}, commit {commit})"
    if found != dataset:
        text += f"; stand-in: no numbers for {dataset or 'data of your own'}"
    params = dict(row)
    if place in _MIN_PROB and "min_prob" in inspect.signature(loss_class(name)).parameters:
        params["min_prob"] = _MIN_PROB[place]
    return Preset(
        loss=name,
        dataset=dataset,
        published_for=found,
        params=params,
        source=text,
        url=url,
        commit=commit,
        **_training(name, place, found, noise),
    )


def _defaults(name: str, dataset: str | None, num_classes: int | None, noise: Noise) -> Preset:
    found = next(entry for entry in _candidates(dataset, num_classes) if entry in TRAINING["jal"])
    reference = loss_class(name).reference
    return Preset(
        loss=name,
        dataset=dataset,
        published_for=None,
        source=(
            f"no numbers are published for this loss: the defaults of its definition "
            f"({reference}); training settings from the {SOURCES['jal'][0]}, {found}"
        ),
        **_training(name, "jal", found, noise),
    )


def published() -> Iterator[tuple[str, str, Preset]]:
    """Yield every entry: source, kind of noise ("any" where it is not told apart), settings."""
    for place, table in PARAMETERS.items():
        for name, rows in table.items():
            for key, row in rows.items():
                dataset, _, kind = key.partition("/")
                noise: Noise = "asymmetric" if kind else "symmetric"
                told_apart = kind or f"{dataset}/asymmetric" in rows
                entry = _compose(name, dataset, dataset, place, row, noise)
                yield place, noise if told_apart else "any", entry
