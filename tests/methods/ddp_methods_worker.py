"""Trains a method under torchrun and writes what each process remembers. Not a test itself."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import torch

from edgemask.engine import Objects, resolve, train
from edgemask.methods import METHODS

if __name__ == "__main__":
    torch.set_num_threads(1)
    name, settings, out = sys.argv[1], json.loads(sys.argv[2]), Path(sys.argv[3])
    method = METHODS[name](**settings.pop("options", {}))
    train(resolve(settings), out=out, objects=Objects(method=method))
    torch.save(method.state_dict(), out.parent / f"{name}-{os.environ['RANK']}.pt")
