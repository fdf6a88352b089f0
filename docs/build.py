"""Build the documentation site in build/site, offline.

    python docs/build.py

Pages of the root (CONTRIBUTING, CHANGELOG, SECURITY) and the pictures of ``results/`` become part
of it. A warning, a page that nothing leads to, or a link that leads nowhere ends the build.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
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
    for page in PAGES.rglob("*.md"):
        text = page.read_text(encoding="utf-8")
        for picture in re.findall(r"\]\(\.\./(results/[^)#]+\.png)\)", text):
            (PAGES / picture).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / picture, PAGES / picture)
        text = text.replace("](../results/", "](results/").replace("](docs/", "](")
        for name in ROOT_PAGES:
            text = re.sub(rf"\]\((\.\./)?{name}\.md", f"]({name.lower()}.md", text)
        page.write_text(text.replace("](README.md)", "](index.md)"), encoding="utf-8")


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
