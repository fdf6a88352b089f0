"""Noise by a short text such as ``sym:0.4``."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from edgemask._options import annotated_parameters, check_argument
from edgemask.errors import UserError
from edgemask.noise.asymmetric import asymmetric, pair_flip
from edgemask.noise.files import from_file
from edgemask.noise.given import clean
from edgemask.noise.human import human
from edgemask.noise.instance import instance_dependent
from edgemask.noise.labels import NoisyLabels
from edgemask.noise.matrix import from_matrix
from edgemask.noise.open_set import open_set, open_set_asymmetric
from edgemask.noise.symmetric import symmetric

__all__ = ["make", "parse", "source_files"]

_EXAMPLES = "sym:0.4, asym:0.4, pair:0.45, idn:0.4, open:0.2, human:worst, file:labels.csv, clean"
# CIFAR80N-O is always open-set: the plain kinds of noise mean its closed part.
_OPEN_SET = "cifar80no"
_OPEN: dict[Callable[..., NoisyLabels], Callable[..., NoisyLabels]] = {
    clean: open_set,
    symmetric: open_set,
    open_set: open_set,
    asymmetric: open_set_asymmetric,
    pair_flip: open_set_asymmetric,
    open_set_asymmetric: open_set_asymmetric,
}


def make(
    spec: str,
    labels: ArrayLike | None,
    num_classes: int,
    *,
    dataset: str | None = None,
    protocol: str = "paper",
    seed: int = 0,
    features: ArrayLike | None = None,
    root: str | os.PathLike[str] | None = None,
    mapping: Mapping[int, int] | str | None = None,
) -> NoisyLabels:
    """Make the noise that a short text names.

    ``KIND`` or ``KIND:VALUE``: ``clean``, ``given``, ``sym:0.6``, ``asym:0.4``, ``pair:0.45``,
    ``idn:0.4``, ``open:0.2``, ``open-asym:0.4``, ``human:worst``, ``matrix:T.csv``,
    ``file:labels.csv``, ``file:sets.npz#NAME``. Options that a kind does not take are ignored,
    except ``mapping``.

    Args:
        spec: The text.
        labels: True labels; None only where the noise has its own.
        num_classes: The number of classes.
        dataset: Name of the dataset, which chooses the map of asymmetric noise. On ``cifar80n-o``
            (fine labels of CIFAR-100; classes 80 and above, or -1, are foreign) ``sym``, ``asym``
            and ``clean`` mean open-set noise with that closed part.
        protocol: Whose generator: ``paper``, ``jal``, ``apl``, ``dividemix`` or ``nust``.
        seed: Seed of the draw.
        features: One row per sample, for ``idn``.
        root: The folder of the data, where label files are looked for.
        mapping: The map of ``asym`` noise, from class to class or by name.

    Example:
        >>> make("sym:0.5", [0, 1] * 10, 2, seed=3).realised_rate
        0.5
    """
    function, value = parse(spec, dataset)
    if _is_open_set(dataset):
        if function in _OPEN.values():
            num_classes = 100
        elif labels is not None:
            num_classes, labels = 80, np.where(np.asarray(labels) < 80, labels, -1)
    parameters = annotated_parameters(function)
    if mapping is not None and "mapping" not in parameters:
        raise UserError(f"mapping= is for asymmetric noise; {spec!r} has no use for it")
    options: dict[str, Any] = {
        "dataset": dataset,
        "protocol": protocol,
        "seed": seed,
        "features": features,
        "root": root,
        "mapping": mapping,
    }
    used = {name: option for name, option in options.items() if name in parameters}
    return function(labels, *value, num_classes, **used)


def parse(
    spec: str, dataset: str | None = None
) -> tuple[Callable[..., NoisyLabels], tuple[Any, ...]]:
    """Read the text that names some noise.

    Returns:
        The noise function, and the value after the colon if it takes one.

    Raises:
        UserError: For an unknown kind, and for a value that is missing, wrong or not taken.

    Example:
        >>> parse("sym:0.4")[1]
        (0.4,)
    """
    from edgemask.noise import NOISE

    kind, colon, text = (part.strip() for part in str(spec).partition(":"))
    try:
        function = NOISE[kind.lower()]
    except UserError as error:
        raise UserError(f"noise {spec!r}: {error}. Examples: {_EXAMPLES}") from None
    if colon and _takes(function)[0] == "num_classes":
        raise UserError(f"noise {spec!r}: {kind!r} takes no value; write {kind!r} alone")
    if _is_open_set(dataset):
        if function is NOISE["clean"]:
            text = "0"
        function = _OPEN.get(function, function)
    wanted, annotation = _takes(function)
    if wanted == "num_classes":
        return function, ()
    if not text:
        what = {"rate": "a rate, as in", "subset": "the name of a label set, as in"}
        example = {"rate": "0.4", "subset": "worst", "path": "labels.csv", "matrix": "T.csv"}
        sample = f"{kind}:{example.get(wanted, wanted)}"
        raise UserError(f"noise {spec!r} needs {what.get(wanted, 'a file, as in')} {sample}")
    value: Any = text
    if wanted == "rate":
        with suppress(ValueError):
            value = float(text)
    return function, (check_argument(value, annotation, f"noise {spec!r}: {wanted}"),)


def source_files(
    spec: str, *, protocol: str = "paper", root: str | os.PathLike[str] | None = None
) -> list[Path]:
    """Return the files that the noise of a text is read from, as far as they exist.

    Args:
        spec: The text, as :func:`make` takes it.
        protocol: Whose generator is meant.
        root: The folder of the data.
    """
    function, value = parse(spec)
    names: tuple[str, ...] = ()
    if function in (from_file, from_matrix):
        names = (str(value[0]).partition("#")[0],)
    elif function is human:
        names = ("cifar-n.npz", "CIFAR-10_human.pt", "CIFAR-100_human.pt")
    elif function is instance_dependent and protocol == "jal":
        names = ("idn-labels.npz",)
    folders = [Path.cwd()] if root is None else [Path.cwd(), Path(root).expanduser()]
    places = [[folder / Path(name).expanduser() for folder in folders] for name in names]
    found = (next((place for place in row if place.is_file()), None) for row in places)
    return [place for place in found if place is not None]


def _takes(function: Callable[..., NoisyLabels]) -> tuple[str, Any]:
    """Return name and annotation of the value after the colon; ``num_classes`` if there is none."""
    name, (_, annotation) = list(annotated_parameters(function).items())[1]
    return name, annotation


def _is_open_set(dataset: str | None) -> bool:
    return dataset is not None and re.sub(r"[^a-z0-9]", "", dataset.lower()) == _OPEN_SET
