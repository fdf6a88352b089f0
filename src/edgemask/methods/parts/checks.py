"""Checks of a method's options that name the method, the option and what it takes."""

from __future__ import annotations

from edgemask.errors import UserError

__all__ = ["above_zero", "at_least", "one_of", "shares"]


def shares(method: str, **values: float) -> None:
    """Refuse options outside [0, 1]."""
    for name, value in values.items():
        if not 0 <= value <= 1:
            raise UserError(f"{method}: {name} must lie in [0, 1], got {value}")


def above_zero(method: str, **values: float) -> None:
    """Refuse options that are 0 or below."""
    for name, value in values.items():
        if not value > 0:
            raise UserError(f"{method}: {name} must be above 0, got {value}")


def at_least(method: str, least: float, **values: float | None) -> None:
    """Refuse options below ``least``; None passes."""
    for name, value in values.items():
        if value is not None and value < least:
            raise UserError(f"{method}: {name} must be {least} or above, got {value}")


def one_of(method: str, known: tuple[str, ...], **values: str) -> None:
    """Refuse options that are none of the known words."""
    for name, value in values.items():
        if value not in known:
            words = " or ".join(map(repr, known))
            raise UserError(f"{method}: {name} must be {words}, got {value!r}")
