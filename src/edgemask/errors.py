"""The errors and warnings that EdgeMask raises on purpose."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = ["DataError", "EdgeMaskWarning", "MissingExtraError", "UserError", "unknown_name"]


class UserError(ValueError):
    """Something that the caller can mend: a wrong name, value, file or flag.

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
        why = f" ({type(cause).__name__}: {cause})" if cause is not None else ""
        super().__init__(
            f"the package {package!r} is needed {purpose} and could not be imported{why}; "
            f'install it with: pip install "edgemask[{extra}]"'
        )


class EdgeMaskWarning(UserWarning):
    """Something that works but that the caller probably did not mean."""


def unknown_name(kind: str, name: object, known: Iterable[str]) -> UserError:
    """Build the error for a name that does not exist, with the nearest ones that do."""
    names = sorted(known)
    near = get_close_matches(str(name), names, n=3, cutoff=0.5)
    hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
    return UserError(f"unknown {kind} {name!r}{hint} Known: {', '.join(names)}")
