"""Which number formats work on this machine."""

from __future__ import annotations

import functools
import os
import subprocess
import sys

import torch

from edgemask.errors import UserError

__all__ = ["probe", "usable_precision"]

# Some virtual machines report bf16 support, but using it kills the process.
_PROBE = """
import torch
x = torch.randn(64, 64)
with torch.autocast("cpu", {dtype}):
    layer = torch.nn.Linear(64, 64)
    layer(x).sum().backward()
"""


@functools.cache
def probe(precision: str) -> str | None:
    """Try a number format on the CPU, in a subprocess.

    Args:
        precision: ``bf16`` or ``fp16``.

    Returns:
        None if it works, otherwise a description of the failure.
    """
    dtype = {"bf16": "torch.bfloat16", "fp16": "torch.float16"}[precision]
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
    }
    try:
        result = subprocess.run(  # noqa: S603 - our own interpreter and text
            [sys.executable, "-c", _PROBE.format(dtype=dtype)],
            capture_output=True,
            timeout=120,
            env=environment,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"the probe could not run ({type(error).__name__})"
    if result.returncode == 0:
        return None
    if result.returncode < 0:
        return f"it kills the process (signal {-result.returncode})"
    lines = result.stderr.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else f"the probe ended with code {result.returncode}"


def usable_precision(wanted: str, device: torch.device) -> tuple[str, str | None]:
    """Return the format to use and, if it is not the wanted one, the reason in one line.

    Args:
        wanted: ``fp32``, ``bf16`` or ``fp16``.
        device: The device of the run.
    """
    if wanted not in ("fp32", "bf16", "fp16"):
        raise UserError(f"train.precision must be fp32, bf16 or fp16, got {wanted!r}")
    if wanted == "fp32":
        return wanted, None
    if device.type == "cpu":
        if wanted == "fp16":
            return "fp32", "fp16 needs an accelerator; this run on the CPU uses fp32"
        trouble = probe(wanted)
        if trouble is not None:
            return "fp32", f"{wanted} does not work on this machine: {trouble}; using fp32"
    elif device.type == "cuda" and wanted == "bf16" and not torch.cuda.is_bf16_supported():
        return "fp32", "this GPU has no bf16; using fp32"
    return wanted, None
