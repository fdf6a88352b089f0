"""Trains several configs one after the other in double precision. Not a test itself."""

from __future__ import annotations

import json
import sys

import torch
from torch import Tensor, nn

from edgemask.engine import Objects, resolve, train


class DoubleNet(nn.Module):
    """No batch normalisation: its statistics are each process's own."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.Tanh()).double()
        self.head = nn.Linear(32, 10).double()

    def forward(self, x: Tensor) -> Tensor:
        """Classify."""
        logits: Tensor = self.head(self.body(x.double()))
        return logits


def main(jobs: dict[str, dict]) -> None:
    """Train each config in its folder."""
    torch.set_num_threads(1)
    for out, settings in jobs.items():
        train(resolve(settings), out=out, objects=Objects(model=DoubleNet))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
