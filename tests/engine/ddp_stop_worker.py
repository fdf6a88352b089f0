"""Trains under torchrun and may be stopped in one process. Not a test itself."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import torch

from edgemask.engine import Interrupted, Objects, resolve, train
from edgemask.engine.processes import Processes
from edgemask.methods import Supervised

SETTINGS = {
    "data": {"spec": "digits", "limit": 330, "test_limit": 50},
    "noise": {"spec": "sym:0.4"},
    "model": {"name": "small-cnn", "width": 0.25},
    "head": {"name": "sem"},
    "method": {"name": "object:stops"},
    "train": {"epochs": 2, "batch_size": 32},
    "log": {"trackers": [], "checkpoint_seconds": 1e9},
}


class Stops(Supervised):
    """Asks the second process alone to stop, in the third step."""

    def __init__(self):
        super().__init__()
        self.steps = 0

    def after_step(self, phase, clock):
        super().after_step(phase, clock)
        self.steps += 1
        # Not an option of the method: the run that goes on must be the same one.
        if self.steps == 3 and os.environ["RANK"] == "1" and sys.argv[2] == "1":
            os.kill(os.getpid(), signal.SIGTERM)


def main(out: Path) -> None:
    agreements = []
    real = Processes.any

    def counted(self, *flags):
        agreements.append(flags)
        return real(self, *flags)

    Processes.any = counted
    method = Stops()
    try:
        train(resolve(SETTINGS), out=out, objects=Objects(method=method))
    except Interrupted:
        found = {"steps": method.steps, "agreements": len(agreements)}
        (out.parent / f"stopped-{os.environ['RANK']}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]))
