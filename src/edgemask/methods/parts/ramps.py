"""Weights of loss terms that change with time."""

from __future__ import annotations

__all__ = ["linear_ramp"]


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
