"""What a run keeps of its training samples and of its head as the epochs go by."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from edgemask.diagnostics import (
    confidence_split,
    memorisation,
    score_snapshot,
    trust_from_losses,
)
from edgemask.diagnostics.retention import BINS
from edgemask.engine.files import write_arrays
from edgemask.engine.job import Job
from edgemask.engine.rundir import RunDir
from edgemask.engine.tester import Outcome
from edgemask.noise import NoisyLabels

__all__ = ["Recorder", "looks_every"]

_MAX_SNAPSHOTS = 50
_FEW_SAMPLES = 5000


def looks_every(record_every: int | None, samples: int) -> int:
    """Return the epochs between two looks at all training samples; 0: at the end only.

    A look takes about a third of an epoch: left to us, it is every fourth epoch, unless the
    samples are so few that nobody waits for them.
    """
    if record_every is not None:
        return record_every
    return 1 if samples <= _FEW_SAMPLES else 4


class Recorder:
    """Gathers per-sample losses and scores of the head; part of the checkpoint.

    Args:
        noise: The labels of the training samples.
        epochs: Epochs of the run.
    """

    def __init__(self, noise: NoisyLabels, epochs: int):
        self.noise = noise
        self.loss_sum = torch.zeros(len(noise), dtype=torch.float64)
        self.loss_count = 0
        self.every = max(1, math.ceil(epochs / _MAX_SNAPSHOTS))
        self.epochs = epochs
        self.snapshots: list[dict[str, Any]] = []

    def look(self, outcome: Outcome) -> dict[str, float | None]:
        """Take in the model's answers on the training samples; return what they show."""
        self.loss_sum += torch.from_numpy(outcome.loss.astype(np.float64))
        self.loss_count += 1
        clean = self.noise.clean
        if clean is None:
            return {}
        given = self.noise.noisy
        return confidence_split(outcome.confidence, given, clean) | memorisation(
            outcome.predicted, given, clean
        )

    def head(self, net: nn.Module, epoch: int, retention: float | None) -> None:
        """Keep the scores of the head, at some fifty evenly spaced epochs."""
        if epoch % self.every and epoch != self.epochs - 1:
            return
        snapshot = score_snapshot(net)
        if snapshot is not None:
            self.snapshots.append(
                {
                    "epoch": epoch,
                    "retention": retention if retention is not None else math.nan,
                    "scores": snapshot.scores,
                    "columns": snapshot.columns,
                    "histogram": snapshot.histogram,
                }
            )

    def mean_loss(self) -> Tensor:
        """Return each sample's loss averaged over the looks taken."""
        return self.loss_sum / max(self.loss_count, 1)

    def trust(self, own: Tensor | None) -> Tensor:
        """Return the trust in each given label: the method's own, or from the losses."""
        if own is not None:
            return own.detach().float().cpu()
        return torch.from_numpy(trust_from_losses(self.mean_loss().numpy()))

    def write(self, folder: RunDir, job: Job, outcome: Outcome, trust: Tensor) -> None:
        """Write ``samples.npz`` and, for a head with scores, ``head.npz``."""
        samples: dict[str, NDArray[Any]] = {
            "index": job.positions,
            "given": self.noise.noisy,
            "predicted": outcome.predicted,
            "confidence": outcome.confidence.astype(np.float32),
            "trust": trust.numpy().astype(np.float32),
            "mean_loss": self.mean_loss().numpy().astype(np.float32),
        }
        if job.train.names is not None:
            samples["name"] = np.array(job.train.names, dtype=np.str_)
        if self.noise.clean is not None:
            samples["clean"] = self.noise.clean
        write_arrays(folder / "samples.npz", samples)
        if self.snapshots:
            write_arrays(
                folder / "head.npz",
                {
                    "epochs": np.array([s["epoch"] for s in self.snapshots]),
                    "retention": np.array([s["retention"] for s in self.snapshots], np.float32),
                    "scores": torch.stack([s["scores"] for s in self.snapshots]).numpy(),
                    "columns": self.snapshots[0]["columns"].numpy(),
                    "histogram": torch.stack([s["histogram"] for s in self.snapshots]).numpy(),
                    "edges": np.linspace(0.0, 1.0, BINS + 1),
                },
            )

    def state_dict(self) -> dict[str, Any]:
        """Return everything gathered."""
        return {
            "loss_sum": self.loss_sum,
            "loss_count": self.loss_count,
            "snapshots": list(self.snapshots),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take back what :meth:`state_dict` gave."""
        self.loss_sum = state["loss_sum"]
        self.loss_count = state["loss_count"]
        self.snapshots = list(state["snapshots"])
