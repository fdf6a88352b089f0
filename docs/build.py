"""Build the documentation site in build/site, offline.

    python docs/build.py

Pages of the root (CONTRIBUTING, CHANGELOG, SECURITY), the table of examples, the pictures of
``results/`` and the notebooks of ``docs/tutorials`` with their outputs become part of it. A
warning, a page that nothing leads to, or a link that leads nowhere ends the build.
"""

from __future__ import annotations

import base64
import html
import json
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).parents[1]
PAGES, SITE = ROOT / "build" / "docs", ROOT / "build" / "site"
ROOT_PAGES = ("CHANGELOG", "CONTRIBUTING", "SECURITY")


def collect() -> None:
    """Write all pages and pictures to build/docs, with links that hold there."""
    shutil.rmtree(PAGES, ignore_errors=True)
    shutil.copytree(ROOT / "docs", PAGES, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    for name in ROOT_PAGES:
        shutil.copy(ROOT / f"{name}.md", PAGES / f"{name.lower()}.md")
    examples = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    examples = re.sub(r"\[(\w+\.py)\]\(\1\)", r"`\1`", examples).replace("](../docs/", "](")
    (PAGES / "examples.md").write_text(examples, encoding="utf-8")
    for path in sorted(PAGES.rglob("*.ipynb")):
        path.with_suffix(".md").write_text(notebook_page(path), encoding="utf-8")
    for page in PAGES.rglob("*.md"):
        text = page.read_text(encoding="utf-8")
        for picture in re.findall(r"\]\(\.\./(results/[^)#]+\.png)\)", text):
            (PAGES / picture).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / picture, PAGES / picture)
        text = re.sub(r"(?m)^\|.*$", lambda row: _plain_pipes(row[0]), text)
        text = text.replace("](../results/", "](results/").replace("](docs/", "](")
        text = re.sub(r"\]\((tutorials/[\w-]+)\.ipynb\)", r"](\1.md)", text)
        text = text.replace("](../examples/README.md)", "](examples.md)")
        for name in ROOT_PAGES:
            text = re.sub(rf"\]\((\.\./)?{name}\.md", f"]({name.lower()}.md", text)
        page.write_text(text.replace("](README.md)", "](index.md)"), encoding="utf-8")


def _plain_pipes(row: str) -> str:
    r"""Return a row of a table with ``\|`` inside code as the site's Markdown understands it."""

    def code(found: re.Match[str]) -> str:
        return f"<code>{html.escape(found[1]).replace(chr(92) + '|', '&#124;')}</code>"

    return re.sub(r"`([^`]*\\\|[^`]*)`", code, row)


def notebook_page(path: Path) -> str:
    """Return a notebook as Markdown; its pictures are written beside it."""
    parts = []
    for number, cell in enumerate(json.loads(path.read_text(encoding="utf-8"))["cells"]):
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for place, output in enumerate(cell["outputs"]):
            parts.append(_output(output, path.with_name(f"{path.stem}-{number}-{place}.png")))
    title, _, rest = "\n\n".join(filter(None, parts)).partition("\n")
    return f"{title}\n\n[Download this notebook]({path.name}){{ .md-button }}\n{rest}\n"


def _output(output: dict[str, Any], picture: Path) -> str:
    """Return an output of a cell: a picture, a table, or text."""
    data = output.get("data", {})
    if "image/png" in data:
        picture.write_bytes(base64.b64decode(data["image/png"]))
        return f"![what the cell drew]({picture.name})"
    if "text/html" in data:
        page = re.sub(r"<style.*?</style>", "", "".join(data["text/html"]), flags=re.DOTALL)
        page = re.sub(r"<table[^>]*>", "<table>", page)  # in the style of the site
        # Without blank lines or indentation, Markdown leaves a table as it is.
        return "\n".join(line.strip() for line in page.splitlines() if line.strip())
    text = "".join(data.get("text/plain", output.get("text", ""))).strip("\n")
    return f"```{{ .text .output }}\n{text}\n```" if text else ""


class Links(HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep what a tag links to and is called."""
        values = {key: value for key, value in attrs if value}
        self.links += [values[key] for key in ("href", "src") if key in values]
        self.anchors |= {values[key] for key in ("id", "name") if key in values}


def broken_links(site: Path) -> list[str]:
    """Return the links inside a site that lead nowhere."""
    pages = {}
    for path in site.rglob("*.html"):
        pages[path.resolve()] = parser = Links()
        parser.feed(path.read_text(encoding="utf-8"))
    broken = []
    for path, page in pages.items():
        if path.name == "404.html":  # its links are those of a server's root
            continue
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            found = target.exists() and (
                not parts.fragment
                or target not in pages
                or unquote(parts.fragment) in pages[target].anchors
            )
            if not found:
                broken.append(f"{path.relative_to(site.resolve())}: {link}")
    return sorted(set(broken))


def main() -> None:
    """Collect the pages, build the site and check its links."""
    collect()
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict", "-f", "mkdocs.yml"]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)  # noqa: S603
    said = done.stdout + done.stderr
    if done.returncode or re.search(r"warning|griffe:", said, re.IGNORECASE):
        sys.exit(said)
    broken = broken_links(SITE)
    if broken:
        sys.exit("links that lead nowhere:\n" + "\n".join(broken))
    print(f"{SITE.relative_to(ROOT)}: {len(list(SITE.rglob('*.html')))} pages")


if __name__ == "__main__":
    main()
