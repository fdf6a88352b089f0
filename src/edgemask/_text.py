"""Foreign text: one visible line of it, and fields of a CSV file that no spreadsheet runs."""

from __future__ import annotations

import unicodedata

__all__ = ["as_csv", "from_csv", "printable"]

_MAX_LENGTH = 300
_FORMULA = ("=", "+", "-", "@", "|", "%")


def printable(value: object, *, max_length: int | None = _MAX_LENGTH) -> str:
    r"""Return one line of visible text.

    Control characters, marks that change the direction of writing, and lone surrogates become their
    escape sequences, so that no name can move the cursor, hide its ending or break the encoding.

    Example:
        >>> printable("a\nb" + chr(27) + "[2J")
        'a\\nb\\x1b[2J'
    """
    text = str(value)
    if max_length is not None and len(text) > max_length:
        text = text[: max_length - 1] + "…"
    if text.isprintable():
        return text
    return "".join(
        char.encode("unicode_escape").decode("ascii")
        if unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"}
        and char not in "\u200c\u200d"
        else char
        for char in text
    )


def as_csv(value: object) -> str:
    """Return the text for a CSV field that a spreadsheet opens as text, never as a formula.

    Example:
        >>> as_csv("=1+1")
        "'=1+1"
    """
    text = printable(value, max_length=None)
    return "'" + text if text.lstrip(" '").startswith(_FORMULA) else text


def from_csv(field: str) -> str:
    """Return the text of a field that :func:`as_csv` wrote; other fields stay as they are.

    Example:
        >>> from_csv("'=1+1"), from_csv("it's")
        ('=1+1', "it's")
    """
    quoted = field.startswith("'") and field.lstrip(" '").startswith(_FORMULA)
    return field[1:] if quoted else field
