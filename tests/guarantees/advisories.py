"""Lists known advisories of the installed packages: `make advisories` runs it.

PyPI's JSON page of a release names them. Some mirrors only have the page of a package, which is
that of its newest release: older releases are then listed as not checked.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import Any

INDEX = os.environ.get("EDGEMASK_ADVISORIES", "https://pypi.org/pypi")


def page(path: str) -> dict[str, Any] | None:
    """Return a JSON page of the index, or None if it cannot be had."""
    try:
        with urllib.request.urlopen(f"{INDEX}/{path}/json", timeout=60) as answer:
            found: dict[str, Any] = json.load(answer)
            return found
    except (OSError, ValueError):
        return None


def advisories(name: str, version: str) -> list[dict[str, Any]] | None:
    """Return the advisories of a release, None if they cannot be known."""
    version = version.partition("+")[0]  # such as 2.13.0+cpu
    found = page(f"{name}/{version}") or page(name)
    if found is None or found["info"]["version"] != version or "vulnerabilities" not in found:
        return None
    return [each for each in found["vulnerabilities"] if not each.get("withdrawn")]


def main() -> int:
    """Print what is known of each package; return how many have an advisory."""
    names = {d.metadata["Name"].lower(): d.version for d in importlib.metadata.distributions()}
    installed = sorted((name, version) for name, version in names.items() if name != "edgemask")
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda package: advisories(*package), installed))
    pairs = list(zip(installed, results, strict=True))
    for (name, version), found in pairs:
        for each in found or ():
            fixed = ", ".join(each.get("fixed_in") or ()) or "no release yet"
            line = " ".join((each.get("summary") or each.get("details") or "").split())[:100]
            print(f"{name} {version}: {each['id']} (fixed in {fixed}) {line}")
    unknown = [f"{name} {version}" for (name, version), found in pairs if found is None]
    if unknown:
        print(f"not checked, no page of this release: {', '.join(unknown)}")
    affected = sum(bool(found) for found in results)
    checked = len(installed) - len(unknown)
    print(f"{checked} of {len(installed)} packages checked, {affected} with advisories")
    return affected


if __name__ == "__main__":
    raise SystemExit(bool(main()))
