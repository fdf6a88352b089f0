"""Trains several configs one after the other in double precision. Not a test itself."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Sequence

import accelerate
import torch
from torch import Tensor, nn

import edgemask.data.loader
import edgemask.data.views
import edgemask.engine
from edgemask.engine import Interrupted, networks, resolve, stepping
from edgemask.losses import LOSSES, GCELoss
from edgemask.losses.base import loss
from edgemask.methods import neighborhood
from edgemask.models import MODELS, Backbone


class DoubleNet(Backbone):
    """A small network without batch normalisation, whose statistics are each process's own."""

    def __init__(
        self, num_classes: int, *, input_shape: Sequence[int] = (1, 8, 8), width: float = 1.0
    ) -> None:
        super().__init__(num_classes, input_shape=input_shape)
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.Tanh())
        self._finish(32)

    def encode(self, x: Tensor) -> Tensor:
        """Return the hidden layer."""
        features: Tensor = self.body(x.double())
        return features


@loss
class WeightedGCE(GCELoss):
    """Classes count differently; a mean by them is no mean over samples."""

    weight: Sequence[float] = tuple(0.25 * (1 + label) for label in range(10))


def prepare() -> None:
    """Make networks and losses double, without batch normalisation and without random views."""

    def build_networks(*args, **options):
        nets = networks.build_networks(*args, **options)
        return {name: net.double() for name, net in nets.items()}

    def build_criterion(*args, **options):
        return networks.build_criterion(*args, **options).double()

    training = sys.modules["edgemask.engine.train"]
    training.build_networks = build_networks
    training.build_criterion = build_criterion
    nn.BatchNorm1d = lambda *_: nn.Identity()
    edgemask.data.loader.build = lambda bundle, _: edgemask.data.views.build(bundle, "none")
    neighborhood._LEAST_CANDIDATES = 20
    MODELS.register("double-net", DoubleNet)
    LOSSES.register("weighted-gce", WeightedGCE)


def main(jobs: list[dict]) -> None:
    """Train each config in its folder, to the end or until it is told to stop after a step."""
    torch.set_num_threads(1)
    prepare()
    steps = [0, 0]
    real = stepping.Stepper.step

    def step(*args, **options):
        steps[0] += 1
        if steps[0] == steps[1]:
            os.kill(os.getpid(), signal.SIGTERM)
        return real(*args, **options)

    stepping.Stepper.step = step
    leave = accelerate.PartialState.destroy_process_group
    for number, job in enumerate(jobs):
        # Runs share the process group; torchrun would have to be started again for each otherwise.
        last = number == len(jobs) - 1
        accelerate.PartialState.destroy_process_group = leave if last else (lambda *_: None)
        steps[:] = [0, job.get("stop", 0)]
        try:
            edgemask.engine.train(resolve(job["settings"]), out=job["out"])
        except Interrupted:
            assert job.get("stop")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
