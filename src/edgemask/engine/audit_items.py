"""What the page of an audit shows of samples: small pictures, texts, rows, links to files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from edgemask._files import write_arrays, write_text
from edgemask.audit import LabelAudit
from edgemask.data import DataBundle, FileSplit, Split
from edgemask.engine.run_data import JoinedSplit, SubSplit
from edgemask.engine.thumbnails import small_images

__all__ = ["write_items"]

_PICTURES = 2_000
_ITEMS = 20_000
_BATCH = 256


def write_items(folder: Path, audit: LabelAudit, bundle: DataBundle) -> None:
    """Write ``thumbnails.npz`` or ``items.jsonl`` for the samples that a page may show.

    These are the samples worth checking, by rank, and those drawn at random to be checked.

    Args:
        folder: The folder of the audit.
        audit: The audit.
        bundle: The data with all samples in ``train``.
    """
    listed = audit.order[audit.listed[audit.order]]
    shown = np.array(
        list(dict.fromkeys([*audit.check.tolist(), *listed.tolist()])),
        dtype=np.int64,
    )
    if len(bundle.input_shape) == 3:
        places = shown[:_PICTURES]
        parts: list[NDArray[np.uint8]] = []
        for start in range(0, len(places), _BATCH):
            raw = bundle.train.raw(torch.from_numpy(places[start : start + _BATCH]))
            if raw.dtype != torch.uint8 or raw.shape[1] not in (1, 3):
                parts = []
                break
            parts.append(small_images(raw))
        if parts:
            images = np.concatenate(parts)
            write_arrays(folder / "thumbnails.npz", {"index": places, "images": images})
    lines = [
        json.dumps({"index": int(place), **item})
        for place in shown[:_ITEMS]
        if (item := _item(bundle.train, int(place)))
    ]
    if lines:
        write_text(folder / "items.jsonl", "\n".join(lines) + "\n")


def _item(split: Split, place: int) -> dict[str, Any]:
    """Return the path or the text of a sample, where it has one."""
    if isinstance(split, SubSplit):
        return _item(split.split, int(split.positions[place]))
    if isinstance(split, JoinedSplit):
        for part in split.splits:
            if place < len(part):
                return _item(part, place)
            place -= len(part)
    if isinstance(split, FileSplit):
        return {"path": str(split.path(place).resolve())}
    texts = getattr(split, "texts", None)
    return {"text": str(texts[place])} if texts is not None else {}
