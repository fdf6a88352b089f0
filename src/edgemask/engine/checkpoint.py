"""Checkpoints: everything that the rest of a run depends on, in one file that runs no code.

A checkpoint is written beside its place and moved there, so that it is whole or absent. The last
and the one before are kept: where the last is damaged, the one before is used. It holds tensors and
plain values only and is read with ``weights_only=True``.
"""

from __future__ import annotations

import io
import re
import warnings
from pathlib import Path
from typing import Any

import torch

from edgemask._files import atomic_write
from edgemask._pickles import check_torch
from edgemask._text import printable
from edgemask.errors import EdgeMaskWarning, UserError
from edgemask.runs import check_seal, seal

__all__ = ["VERSION", "Checkpoints"]

VERSION = 2
_NAME = re.compile(r"^(\d{10})\.pt$")


class Checkpoints:
    """The checkpoints of one run.

    Args:
        folder: Where they lie.
        keep: How many of the newest stay.
    """

    def __init__(self, folder: Path, keep: int = 2):
        self.folder = folder
        self.keep = keep

    def paths(self) -> list[Path]:
        """Return the checkpoints, oldest first."""
        if not self.folder.is_dir():
            return []
        return sorted(path for path in self.folder.iterdir() if _NAME.match(path.name))

    def save(self, state: dict[str, Any], step: int) -> Path:
        """Write a checkpoint and drop the ones that are no longer kept.

        Args:
            state: Tensors and plain values.
            step: Optimiser steps made so far; names the file.
        """
        path = self.folder / f"{step:010d}.pt"
        # Through memory: torch turns a full disk into a RuntimeError about its own format.
        memory = io.BytesIO()
        torch.save({"version": VERSION, **state}, memory)
        atomic_write(path, lambda file: file.write(seal(memory.getvalue())))
        for old in self.paths()[: -self.keep]:
            old.unlink(missing_ok=True)
        return path

    def load(self) -> dict[str, Any] | None:
        """Read the newest checkpoint that is undamaged, or None if there is none at all.

        Warns:
            EdgeMaskWarning: If a newer one is damaged.

        Raises:
            UserError: If it was written by another version, or if no checkpoint can be read.
        """
        damaged: list[str] = []
        for path in reversed(self.paths()):
            try:
                state = _read(path)
            except Exception as error:  # noqa: BLE001 - torch raises all sorts on a broken file
                damaged.append(f"{path} ({printable(error) or type(error).__name__})")
                continue
            if state.get("version") != VERSION:
                raise UserError(
                    f"{path} has checkpoint version {state.get('version')}, this EdgeMask reads "
                    f"version {VERSION}; resume with the EdgeMask that wrote it, or start over "
                    "with fresh"
                )
            if damaged:
                warnings.warn(
                    f"damaged checkpoint: {', '.join(damaged)}; going on from the one before, "
                    f"{path.name}",
                    EdgeMaskWarning,
                    stacklevel=2,
                )
            return state
        if damaged:
            raise UserError(
                f"no checkpoint can be read: {', '.join(damaged)}; start over with fresh"
            )
        return None


def _read(path: Path) -> dict[str, Any]:
    """Read a checkpoint after comparing its contents with the archive's checksums."""
    data = check_seal(path.read_bytes())
    check_torch(data)
    state: dict[str, Any] = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    return state
