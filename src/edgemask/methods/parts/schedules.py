"""Numbers that change with the epoch: drop rates, thresholds, weights, the warm-up's length."""

from __future__ import annotations

from typing import Literal

from edgemask.errors import UserError

__all__ = [
    "drop_rate",
    "is_asymmetric",
    "known_rate",
    "linear_ramp",
    "threshold",
    "warmup_epochs",
]


def is_asymmetric(kind: str | None) -> bool:
    """Return whether a kind of noise sends each class to one other: asymmetric or a pair flip.

    Example:
        >>> [is_asymmetric(kind) for kind in ("asymmetric", "open-asym", "pair", "symmetric", None)]
        [True, True, True, False, False]
    """
    return (kind or "").removeprefix("open-").startswith(("asym", "pair"))


def known_rate(method: str, option: str, given: float | None, *known: float | None) -> float:
    """Return the noise rate that a method works with, or say that it needs one.

    Args:
        method: The method's name, for the message.
        option: The option that gives the rate.
        given: Its value.
        known: Rates of the labels, None where unknown; the first one that is known is taken.
    """
    rate = next((rate for rate in (given, *known) if rate is not None), None)
    if rate is None:
        raise UserError(
            f"{method} has to know what share of the labels is wrong, which is unknown for these "
            f"labels: give a guess, as in --set method.options.{option}=0.2 (`edgemask audit` may "
            "give bounds)"
        )
    if not 0 <= rate < 1:
        raise UserError(f"{method}: {option} must lie in [0, 1), got {rate}")
    return rate


def drop_rate(
    epoch: int,
    rate: float,
    *,
    gradual: int,
    exponent: float = 1.0,
    form: Literal["paper", "released"] = "paper",
) -> float:
    """Return the share of a batch that is dropped in an epoch.

    ``paper``: ``rate * min(epoch^exponent / gradual, 1)``, nothing in epoch 0. ``released``: the
    code of Co-teaching and JoCoR, ``gradual`` even steps from 0 to ``rate^exponent`` and then
    ``rate``; it begins with the second step, since it calls its first epoch 1.

    Args:
        epoch: The epoch, from 0.
        rate: The last drop rate.
        gradual: Epochs until it is reached.
        exponent: Shape of the rise.
        form: Which of the two.

    Example:
        >>> [round(drop_rate(epoch, 0.4, gradual=4), 2) for epoch in range(6)]
        [0.0, 0.1, 0.2, 0.3, 0.4, 0.4]
        >>> [round(drop_rate(epoch, 0.3, gradual=4, form="released"), 2) for epoch in range(4)]
        [0.1, 0.2, 0.3, 0.3]
    """
    if form == "released":
        step = epoch + 1
        if step >= gradual:
            return rate
        return float(rate**exponent) * step / (gradual - 1)
    return rate * min(float(epoch**exponent) / gradual, 1.0) if gradual > 0 else rate


def threshold(epoch: int, *, start: float, end: float, warmup: int, epochs: int) -> float:
    """Return a threshold that rises to ``start`` during the warm-up, then to ``end`` (Jo-SRC).

    ``start e / W`` for ``e < W``, then ``start + (end - start) (e - W) / (E - W)``.

    Example:
        >>> options = {"start": 0.75, "end": 0.95, "warmup": 10, "epochs": 200}
        >>> threshold(0, **options), threshold(10, **options), round(threshold(199, **options), 3)
        (0.0, 0.75, 0.949)
    """
    if epoch < warmup:
        return start * epoch / warmup
    return start + (end - start) * (epoch - warmup) / max(epochs - warmup, 1)


def warmup_epochs(method: str, given: int | None, epochs: int, published: tuple[int, int]) -> int:
    """Return the epochs of warm-up: as given, or the published share of a shorter or longer run.

    Args:
        method: The method's name, for the message.
        given: Value of the option; None for the share.
        epochs: Epochs of the run.
        published: Epochs of warm-up and of the whole run, as published.

    Example:
        >>> warmup_epochs("ca2c", None, 700, (400, 700)), warmup_epochs("ca2c", None, 7, (400, 700))
        (400, 4)
    """
    if given is None:
        part, whole = published
        return min(max(1, round(epochs * part / whole)), epochs - 1)
    if not 0 <= given < epochs:
        raise UserError(
            f"{method}: warmup must lie in [0, {epochs}), since the run has {epochs} epochs and "
            f"the method begins after it; got {given}"
        )
    return given


def linear_ramp(time: float, *, start: float, length: float) -> float:
    """Return ``clip((t - start) / length, 0, 1)``: 0 until ``start``, 1 after ``length`` epochs.

    Args:
        time: Epochs gone by, with the part of the running one.
        start: When it begins to rise.
        length: Epochs that it takes; 0 jumps at ``start``.

    Example:
        >>> linear_ramp(14.0, start=10, length=16)
        0.25
    """
    if length == 0:
        return float(time >= start)
    return min(max((time - start) / length, 0.0), 1.0)
