"""Text from a run made safe for each place where it is shown.

Names of classes, runs and files come from data that nobody checked. They reach the page, its
script blocks, Markdown, LaTeX, CSV and the terminal only through these functions.
"""

from __future__ import annotations

import html as _html
import json
import re
import unicodedata
from typing import Any

__all__ = ["as_csv", "as_html", "as_json", "as_latex", "as_markdown", "plain"]

_LONGEST = 300
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


def plain(value: object, *, longest: int | None = _LONGEST) -> str:
    r"""Return one line of visible text.

    Control characters, marks that turn the direction of writing, and lone surrogates become their
    escape sequences, so that no name can move the cursor, hide its ending or break the encoding.

    Example:
        >>> plain("a\nb" + chr(27) + "[2J")
        'a\\nb\\x1b[2J'
    """
    text = str(value)
    if longest is not None and len(text) > longest:
        text = text[: longest - 1] + "…"
    return "".join(
        char.encode("unicode_escape").decode("ascii")
        if unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"}
        and char not in "\u200c\u200d"
        else char
        for char in text
    )


def as_html(value: object, *, longest: int | None = _LONGEST) -> str:
    """Return the text for an element or a quoted attribute of a page."""
    return _html.escape(plain(value, longest=longest), quote=True)


def as_json(value: Any) -> str:
    """Return JSON that may stand inside a ``<script>`` element.

    Nothing in it can end the element or open a comment: the characters that could are written as
    escapes, which JSON reads back as what they were. NaN and infinities are refused.
    """
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def as_markdown(value: object) -> str:
    r"""Return the text for a paragraph or a table cell in Markdown.

    Example:
        >>> as_markdown("a|b <i>")
        'a\\|b \\<i\\>'
    """
    text = _MARKDOWN.sub(r"\\\1", plain(value)).replace("&", "&amp;").replace("://", ":\u200b//")
    # At the start of a line these would make a list, a heading or a rule.
    return "\\" + text if re.match(r"[-+=](\s|$|[-=])", text) else text


def as_latex(value: object) -> str:
    r"""Return the text for a LaTeX document.

    Example:
        >>> as_latex("50 % ± 1")
        '50 \\% $\\pm$ 1'
    """
    return "".join(_LATEX.get(char, char) for char in plain(value))


def as_csv(value: object) -> str:
    """Return the text for a CSV field that a spreadsheet opens as text, never as a formula.

    Example:
        >>> as_csv("=1+1")
        "'=1+1"
    """
    text = plain(value, longest=None)
    return "'" + text if text.lstrip(" '")[:1] in {"=", "+", "-", "@", "|", "%"} else text
