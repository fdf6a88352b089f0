"""``edgemask resume``: continue a run that was stopped."""

from __future__ import annotations

from edgemask.cli.early import check_run
from edgemask.cli.options import Imports, Json, Quiet, RunPath

__all__ = ["resume"]


def resume(
    run: RunPath, as_json: Json = False, imports: Imports = None, quiet: Quiet = False
) -> None:
    """Continue a run where it stopped; a finished one is only shown."""
    check_run(run)
    from edgemask.cli.running import run_and_show
    from edgemask.engine import resume as go_on

    run_and_show(
        lambda observers: go_on(run, observers=observers),
        as_json=as_json,
        quiet=quiet,
    )
