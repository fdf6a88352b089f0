"""No method's work grows much faster than the samples; numbers are counted, not seconds."""

from __future__ import annotations

import math
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from edgemask.data import from_arrays
from edgemask.engine import Objects, resolve, train
from edgemask.methods import METHODS
from edgemask.methods.parts import neighbours

FEW = 384
_ROWS = (torch.ops.aten.index_put_.default, torch.ops.aten.index_add_.default)
NEEDED: dict[str, dict[str, Any]] = {"promix": {"fmix": False}, "jo-snc": {"queue": 64}}


class Numbers(TorchDispatchMode):
    """Counts the numbers that all operations write."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        given = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        if func in _ROWS:  # some rows of a table, which comes back as a whole
            self.count += given[-1].numel()
        elif given and given[-1].is_sparse:
            self.count += given[-1]._values().numel()
        elif not func.is_view:
            made = (x for x in tree_leaves(result) if isinstance(x, torch.Tensor))
            self.count += sum(x.numel() for x in made if not x.is_sparse)
        return result


def numbers_of(name: str, samples: int, folder: Path) -> int:
    draw = np.random.default_rng(0)
    labels = np.arange(samples) % 4
    centres = 3 * draw.standard_normal((4, 6)).astype(np.float32)
    x = centres[labels] + draw.standard_normal((samples, 6), dtype=np.float32)
    options = dict(NEEDED.get(name, {}))
    if hasattr(METHODS[name], "warmup"):
        options["warmup"] = 1
    if METHODS[name].files:
        for key, values in (("features", x), ("text", centres)):
            np.save(folder / f"{key}{samples}.npy", values)
            options[key] = str(folder / f"{key}{samples}.npy")
    bundle = from_arrays(x, labels, x_test=x[:8], y_test=labels[:8], clean=True)
    config = resolve(
        {
            "data": {"spec": "object:x"},
            "noise": {"spec": "sym:0.4"},
            "model": {"name": "mlp", "width": 0.05},
            "head": {"name": "sem"},
            "method": {"name": name, "options": options},
            "train": {"epochs": 2, "batch_size": 64, "record_every": 0},
            "log": {"trackers": [], "thumbnails": 0, "checkpoint_epochs": 0},
        }
    )
    with Numbers() as numbers:
        train(config, out=folder / f"{name}{samples}", objects=Objects(bundle=bundle))
    return numbers.count


@pytest.mark.long  # two runs of every method, each operation counted
def test_work_grows_with_the_samples(monkeypatch):
    monkeypatch.setattr(neighbours, "MOST_KEYS", 64)  # as if 384 were more than 50,000
    found = {}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in METHODS:
            few, many = (numbers_of(name, n, Path(folder)) for n in (FEW, 2 * FEW))
            found[name] = math.log2(many / few)
    assert min(found.values()) > 0.5, found
    assert max(found.values()) <= 1.1, found
