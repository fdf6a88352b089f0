"""Choosing the device, before torch looks for one."""

from __future__ import annotations

import os
import re

from edgemask.errors import UserError

__all__ = ["choose_device"]


def choose_device(name: str) -> None:
    """Leave only the chosen device to be found by torch and Accelerate.

    Args:
        name: ``auto`` (whatever there is), ``cpu``, ``cuda`` or ``cuda:N``.
    """
    if name == "auto":
        return
    if name == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        os.environ["ACCELERATE_USE_CPU"] = "true"
        return
    match = re.fullmatch(r"cuda(?::(\d+))?", name)
    if match is None:
        raise UserError(f"--device must be auto, cpu, cuda or cuda:N, got {name!r}")
    if match[1] is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = match[1]
    import torch

    if not torch.cuda.is_available():
        raise UserError(f"--device {name}: torch finds no CUDA device; see: edgemask doctor")
