"""Losses with published settings."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

from edgemask.errors import UserError, unknown_name
from edgemask.losses.base import Loss, Reduction
from edgemask.losses.build import build
from edgemask.losses.published import SOURCES, Noise, Preset, row, tables, training

__all__ = ["Preset", "preset", "preset_settings", "published"]

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
        source: One of jal, anl, apl, alf, elr, sop, for that repository's numbers.
        noise: Kind of label noise; only ELR, SOP and APL's NFL distinguish them.
        num_classes: Number of classes, for the choice of a stand-in.

    Raises:
        UserError: If the name is unknown, or the source has no numbers for this loss.

    Example:
        >>> settings = preset_settings("jal", "cifar100")
        >>> settings.params, settings.l1
        ({'alpha': 5.0, 'beta': 1.0, 'a': 20.0}, 5e-06)
    """
    from edgemask.losses import LOSSES

    name = LOSSES.name_of(name)
    if source is not None and source not in SOURCES:
        raise unknown_name("source of presets", source, SOURCES)
    if noise not in ("symmetric", "asymmetric"):
        raise UserError(f"noise={noise!r}: expected 'symmetric' or 'asymmetric'")
    dataset = _normalise(dataset)
    for candidate in _candidates(dataset, num_classes):
        for place in _places(name, source):
            params = row(tables(place)["losses"].get(name, {}), candidate, noise)
            if params is not None:
                return _compose(name, dataset, candidate, place, params, noise)
    if source is not None:
        known = ", ".join(tables(source)["losses"])
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
        noise: Kind of label noise; only ELR, SOP and APL's NFL distinguish them.
        num_classes: Number of classes; known for the published datasets.
        num_samples: Size of the training set, for the losses with a memory.
        reduction: ``"mean"`` or ``"none"``.
        **overrides: Arguments of the loss that replace published ones.

    Returns:
        The loss; its ``settings`` hold the source and the published training settings, and its
        ``l1`` the strength of the L1 penalty that belongs to them (0 if there is none).

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
    loss.l1 = settings.l1
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
    """Return the sources to search: the default, the loss's own authors, then the others."""
    if source is not None:
        return [source]
    own = [place for place in SOURCES if name in tables(place)["own_losses"]]
    return list(dict.fromkeys([SOURCES[0], *own, *SOURCES]))


def _compose(
    name: str,
    dataset: str | None,
    found: str,
    place: str,
    params: Mapping[str, Any],
    noise: Noise,
) -> Preset:
    from edgemask.losses import LOSSES

    file = tables(place)
    text = f"{file['source']}, {found} settings ({file['url']}, commit {file['commit']})"
    if found != dataset:
        text += f"; stand-in: no numbers for {dataset or 'data of your own'}"
    params = dict(params)
    if "min_prob" in file and "min_prob" in inspect.signature(LOSSES[name]).parameters:
        params["min_prob"] = file["min_prob"]
    return Preset(
        loss=name,
        dataset=dataset,
        published_for=found,
        params=params,
        source=text,
        url=file["url"],
        commit=file["commit"],
        **training(name, place, found, noise),
    )


def _defaults(name: str, dataset: str | None, num_classes: int | None, noise: Noise) -> Preset:
    from edgemask.losses import LOSSES

    file = tables("jal")
    candidates = _candidates(dataset, num_classes)
    found = next(entry for entry in candidates if entry in file["training"])
    reference = getattr(LOSSES[name], "reference", "registered from outside")
    return Preset(
        loss=name,
        dataset=dataset,
        published_for=None,
        source=(
            f"no numbers are published for this loss: the defaults of its definition "
            f"({reference}); training settings from the {file['source']}, {found}"
        ),
        **training(name, "jal", found, noise),
    )


def published() -> Iterator[tuple[str, str, Preset]]:
    """Yield every entry: source, kind of noise ("any" where it makes no difference), settings."""
    for place in SOURCES:
        for name, rows in tables(place)["losses"].items():
            for key, params in rows.items():
                dataset, _, kind = key.partition("/")
                noise: Noise = "asymmetric" if kind else "symmetric"
                differs = kind or f"{dataset}/asymmetric" in rows
                entry = _compose(name, dataset, dataset, place, params, noise)
                yield place, noise if differs else "any", entry
