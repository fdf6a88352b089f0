"""How much code there is: lines without docstrings, comments and blanks, by subpackage.

    python benchmarks/size.py [FOLDER ...]

Packaged data (TOML, templates, style sheets) is not counted.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections import Counter
from pathlib import Path

_PACKAGE = Path(__file__).parents[1] / "src" / "edgemask"
_NO_CODE = {
    tokenize.COMMENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
    tokenize.INDENT,
    tokenize.NEWLINE,
    tokenize.NL,
}


def code_lines(source: str) -> int:
    r"""Count the lines of a source text that hold code.

    Example:
        >>> code_lines("'Add.'\n\n# two numbers\ndef add(a, b):\n    return a + b\n")
        2
    """
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else ():
            if (
                isinstance(statement, ast.Expr)
                and isinstance(statement.value, ast.Constant)
                and isinstance(statement.value.value, str)
            ):
                lines -= set(range(statement.lineno, (statement.end_lineno or 0) + 1))
    return len(lines)


def main() -> None:
    for folder in map(Path, sys.argv[1:] or [str(_PACKAGE)]):
        counts: Counter[str] = Counter()
        for path in sorted(folder.rglob("*.py")):
            counts[path.relative_to(folder).parts[0]] += code_lines(path.read_text("utf-8"))
        for name, count in sorted(counts.items()):
            print(f"{count:7,}  {name}")
        print(f"{counts.total():7,}  {folder}")


if __name__ == "__main__":
    main()
