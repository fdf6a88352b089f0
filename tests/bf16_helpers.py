"""Whether this machine can multiply matrices in bfloat16 at all."""

from __future__ import annotations

import subprocess
import sys
from functools import lru_cache

import pytest


@lru_cache(maxsize=1)
def _works() -> bool:
    code = (
        "import torch; l = torch.nn.Linear(64, 64).bfloat16();"
        "l(torch.randn(64, 64).bfloat16()).sum().backward()"
    )
    return subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def require_bf16() -> None:
    """Skip the test where bfloat16 kills the process (AMX advertised but not allowed)."""
    if not _works():
        pytest.skip("bfloat16 matrix products kill the process on this CPU")
