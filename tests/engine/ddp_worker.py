"""Trains under torchrun, for the test beside it. Not a test itself."""

from __future__ import annotations

import json
import sys

import torch
from torch import nn

from edgemask.engine import Objects, resolve, train


def small_net() -> nn.Module:
    """No batch normalisation: its statistics are each process's own."""
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))


if __name__ == "__main__":
    torch.set_num_threads(1)
    train(resolve(json.loads(sys.argv[1])), out=sys.argv[2], objects=Objects(model=small_net))
