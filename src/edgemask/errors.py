"""The errors and warnings that EdgeMask raises on purpose."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from edgemask._text import printable

__all__ = [
    "DataError",
    "EdgeMaskWarning",
    "MissingExtraError",
    "TrainingWarning",
    "UserError",
    "nearest",
    "one_line",
    "unknown_key",
    "unknown_name",
]


# A message that lists more names than this is cut short.
_LISTED = 100


class _Visible(Exception):  # noqa: N818 - a base of errors and of warnings
    """A message that may quote foreign text: nothing in it moves the cursor or hides its ending."""

    def __str__(self) -> str:
        lines = super().__str__().split("\n")
        return "\n".join(printable(line, max_length=None) for line in lines)


class UserError(_Visible, ValueError):
    """Something that the caller can fix: a wrong name, value, file or flag.

    The message names what was wrong, what was expected and what to do. The command line prints it
    without a traceback and exits with code 2.
    """


class DataError(UserError):
    """A dataset or label file that is missing, broken, tampered with or of the wrong shape."""


class MissingExtraError(UserError, ImportError):
    """An optional package is needed and cannot be imported.

    Args:
        package: The package that could not be imported.
        extra: The extra of EdgeMask that installs it.
        purpose: What it is needed for, as it completes "... is needed ...".
        cause: The exception of the failed import; any kind, since broken binaries raise all sorts.
    """

    def __init__(self, package: str, extra: str, purpose: str, cause: BaseException | None = None):
        why = f" ({one_line(cause)})" if cause is not None else ""
        super().__init__(
            f"the package {package!r} is needed {purpose} and could not be imported{why}; "
            f'install it with: pip install "edgemask[{extra}]"'
        )


class EdgeMaskWarning(_Visible, UserWarning):
    """Something that works but that the caller probably did not mean."""


def one_line(error: BaseException) -> str:
    """Return the kind of an error and its message, in one visible line that is not too long."""
    text = printable(" ".join(str(error).split()), max_length=None)
    text = f"{text[:197]}..." if len(text) > 200 else text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


class TrainingWarning(_Visible, UserWarning):
    """A finished run shows signs that it went wrong, such as a class that is never predicted."""


def nearest(name: object, known: Iterable[str]) -> str:
    """Return "; did you mean 'a' or 'b'?" for the known names that are near, or nothing."""
    near = get_close_matches(str(name), sorted(known), n=3, cutoff=0.5)
    return f"; did you mean {' or '.join(map(repr, near))}?" if near else ""


def unknown_key(name: str, known: Iterable[str]) -> str:
    """Return "no such key", the nearest known ones, and all of them."""
    names = list(known)
    listed = f" Known: {', '.join(names)}" if names else ""
    return f"no such key{nearest(name, names) or '.'}{listed}"


def unknown_name(
    kind: str, name: object, known: Iterable[str], aliases: Iterable[str] = ()
) -> UserError:
    """Build the error for a name that does not exist, with the nearest ones that do."""
    names = sorted(known)
    hint = nearest(name, [*names, *aliases])
    if len(names) > _LISTED:
        names = [*names[:10], f"... ({len(names)} in all)"]
    return UserError(f"unknown {kind} {name!r}{hint or '.'} Known: {', '.join(names)}")
