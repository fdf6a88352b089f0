"""The command ``edgemask``, one file per command."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line; the exit code is 0, 1 (a failure), 2 (a mistake) or 128 + signal."""
    try:
        _main()
    except KeyboardInterrupt:  # while modules are imported; verbs have their own message
        sys.stderr.write("error: stopped\n")
        sys.exit(130)


def _main() -> None:
    try:
        from edgemask.cli.app import app
    except ImportError as error:
        if error.name not in ("typer", "click", "rich"):
            raise
        sys.stderr.write(
            f"edgemask: the package {error.name!r} is needed for the command line; install it "
            'with: pip install "edgemask[app]"\n'
        )
        sys.exit(2)
    # What a run records as its command should be what a user types.
    sys.argv[0] = "edgemask"
    app(prog_name="edgemask")
