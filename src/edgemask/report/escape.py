"""Text from a run made safe for each place where it is shown.

Names of classes, runs and files come from data that nobody checked. They reach Markdown, LaTeX, CSV
and the terminal through these functions, and the page through its templates, which escape all text.
"""

from __future__ import annotations

import re
import unicodedata

__all__ = ["as_csv", "as_latex", "as_markdown", "printable"]

_MAX_LENGTH = 300
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~$])")
_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "^": r"\textasciicircum{}",
    "_": r"\_",
    "%": r"\%",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "±": r"$\pm$",
    "−": r"$-$",
    "→": r"$\rightarrow$",
    "–": "--",
}


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
    return "".join(
        char.encode("unicode_escape").decode("ascii")
        if unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"}
        and char not in "\u200c\u200d"
        else char
        for char in text
    )


def as_markdown(value: object) -> str:
    r"""Return the text for a paragraph or a table cell in Markdown.

    Example:
        >>> as_markdown("a|b <i>")
        'a\\|b \\<i\\>'
    """
    text = _MARKDOWN.sub(r"\\\1", printable(value))
    text = text.replace("&", "&amp;").replace("://", ":\u200b//")
    # At the start of a line these would make a list, a heading or a rule.
    return "\\" + text if re.match(r"[-+=](\s|$|[-=])", text) else text


def as_latex(value: object) -> str:
    r"""Return the text for a LaTeX document.

    Example:
        >>> as_latex("50 % ± 1")
        '50 \\% $\\pm$ 1'
    """
    return "".join(_LATEX.get(char, char) for char in printable(value))


def as_csv(value: object) -> str:
    """Return the text for a CSV field that a spreadsheet opens as text, never as a formula.

    Example:
        >>> as_csv("=1+1")
        "'=1+1"
    """
    text = printable(value, max_length=None)
    return "'" + text if text.lstrip(" '")[:1] in {"=", "+", "-", "@", "|", "%"} else text
