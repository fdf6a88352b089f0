"""Starts a script in several processes, as a user would with ``torchrun``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PATIENCE = 3000
"""Seconds after which processes are taken to hang. It is far more than they need even on a machine
that is busy with other things: one run of each kind of loop takes many minutes there."""


def torchrun(script: Path, *arguments: str, processes: int = 2) -> str:
    """Run to the end and return what was printed, or fail with what came on standard error."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += [f"--nproc-per-node={processes}", str(script), *arguments]
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    result = subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=PATIENCE, check=False
    )
    assert result.returncode == 0, result.stderr[-3000:]
    return result.stdout
