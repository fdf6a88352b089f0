"""Text from a run made safe for each place where it is shown.

Names of classes, runs and files come from data that nobody checked. They reach Markdown, LaTeX, CSV
and the terminal through these functions, and the page through its templates, which escape all text.
"""

from __future__ import annotations

import re

from edgemask._text import as_csv, printable

__all__ = ["as_csv", "as_latex", "as_markdown", "printable"]

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
