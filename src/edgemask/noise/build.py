"""From what a person types, ``sym:0.4``, to labels."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Mapping
from typing import Any

from numpy.typing import ArrayLike

from edgemask.errors import UserError
from edgemask.noise._checks import as_rate
from edgemask.noise.labels import NoisyLabels

__all__ = ["make"]

_EXAMPLES = "sym:0.4, asym:0.4, pair:0.45, idn:0.4, open:0.2, human:worst, file:labels.csv, clean"
# CIFAR80N-O is always open-set: the plain kinds of noise mean its closed part.
_OPEN_SET = "cifar80no"
_OPEN = {"clean": "open", "symmetric": "open", "asymmetric": "open-asym", "pair_flip": "open-asym"}


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
    ``file:labels.csv``, ``file:sets.npz#NAME``. Options that a kind has no use for are passed over,
    except ``mapping``.

    Args:
        spec: The text.
        labels: True labels; None only where the noise brings its own.
        num_classes: The number of classes.
        dataset: Name of the dataset, which chooses the map of asymmetric noise. On ``cifar80n-o``
            (fine labels of CIFAR-100; classes 80 and above, or -1, are foreign) ``sym``, ``asym``
            and ``clean`` mean open-set noise with that closed part.
        protocol: Whose generator: ``paper``, ``jal``, ``apl``, ``dividemix`` or ``nust``.
        seed: Seed of the draw.
        features: What samples look like, for ``idn``.
        root: The folder of the data, where label files are looked for.
        mapping: The map of ``asym`` noise, from class to class or by name.

    Example:
        >>> make("sym:0.5", [0, 1] * 10, 2, seed=3).realised_rate
        0.5
    """
    from edgemask.noise import NOISE

    kind, colon, value = str(spec).partition(":")
    kind = kind.strip().lower()
    try:
        function = NOISE[kind]
    except UserError as error:
        raise UserError(f"noise {spec!r}: {error}. Examples: {_EXAMPLES}") from None
    if dataset is not None and re.sub(r"[^a-z0-9]", "", dataset.lower()) == _OPEN_SET:
        num_classes = 100
        if function.__name__ == "clean":
            colon, value = ":", "0"
        if function.__name__ in _OPEN:
            function = NOISE[_OPEN[function.__name__]]
    parameters = inspect.signature(function).parameters
    wanted = list(parameters)[1]
    positional: list[Any] = [labels]
    if wanted != "num_classes":
        positional.append(_value(spec, kind, wanted, value.strip()))
    elif colon:
        raise UserError(f"noise {spec!r}: {kind!r} takes no value; write {kind!r} alone")
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
    return function(*positional, num_classes, **used)


def _value(spec: str, kind: str, wanted: str, text: str) -> float | str:
    """Return the value after the colon as the kind of noise wants it."""
    if not text:
        what = {"rate": "a rate, as in", "subset": "the name of a label set, as in"}
        example = {"rate": "0.4", "subset": "worst", "path": "labels.csv", "matrix": "T.csv"}
        raise UserError(
            f"noise {spec!r} needs {what.get(wanted, 'a file, as in')} {kind}:{example[wanted]}"
        )
    if wanted != "rate":
        return text
    try:
        return as_rate(text)
    except UserError as error:
        raise UserError(f"noise {spec!r}: {error}") from None
