"""Checks the package as it was installed, with its base dependencies alone: `make base` runs it."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import numpy as np
from test_base_install import NEEDS, WORKS

import edgemask as em


def main() -> None:
    place = Path(em.__file__).resolve()
    assert place.is_relative_to(Path(sysconfig.get_path("purelib")).resolve()), place
    installed = {d.metadata["Name"].lower() for d in importlib.metadata.distributions()}
    beside = installed & {"accelerate", "pydantic", "typer", "pandas", "scikit-learn", "scipy"}
    assert not beside, f"not the base dependencies alone: {beside}"
    exec(WORKS, {})
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "run")
        folder.mkdir()
        (folder / "config.yaml").write_text("schema: 2\n")
        for call, extra in NEEDS.items():
            try:
                exec(call, {"em": em, "np": np, "out": str(folder)})
            except em.errors.MissingExtraError as error:
                message = " ".join(str(error).split())
                assert f'pip install "{extra}"' in message, message
                print(f"needs {extra}: {call.partition('(')[0]}")
            else:
                raise AssertionError(f"{call} should need {extra}")
    command = Path(sys.executable).parent / "edgemask"
    done = subprocess.run([str(command)], capture_output=True, text=True, check=False)
    assert done.returncode == 2, done
    assert 'pip install "edgemask[app]"' in done.stderr, done.stderr
    print(f"{place.parent}: {em.__version__}, {len(installed)} packages installed")


if __name__ == "__main__":
    main()
