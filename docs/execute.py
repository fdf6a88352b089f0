"""Run the tutorials and store what they print in them.

    python docs/execute.py [NAME ...]

Each notebook of ``docs/tutorials`` runs in an empty folder of its own, in a kernel of this Python.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient

TUTORIALS = Path(__file__).parent / "tutorials"


def execute(path: Path) -> None:
    """Run all cells of a notebook and write it back with their outputs."""
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        resources = {"metadata": {"path": folder}}
        NotebookClient(notebook, timeout=600, resources=resources).execute()
    for cell in notebook.cells:
        cell.metadata = {}  # the times of the run
        if cell.cell_type == "code":  # progress bars, and tips about them
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    notebook.metadata.language_info = {"name": "python"}
    nbformat.write(notebook, path)


def main(names: list[str]) -> None:
    """Run the named tutorials, or all of them."""
    for path in sorted(TUTORIALS.glob("*.ipynb")):
        if not names or path.stem in names:
            start = time.monotonic()
            execute(path)
            print(f"{path.name}: {time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
