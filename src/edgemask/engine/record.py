"""What a run records of its training samples and of its head over the epochs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from edgemask.audit import TrainingDynamics, trust_from_losses
from edgemask.diagnostics import confidence_split, memorisation, score_snapshot
from edgemask.diagnostics.edges import BINS
from edgemask.engine.config import Config
from edgemask.engine.evaluation import Evaluation
from edgemask.engine.run_data import ALL
from edgemask.noise import NoisyLabels

__all__ = ["Recorder", "record_interval"]

_MAX_SNAPSHOTS = 50
_FEW_SAMPLES = 5000


def record_interval(config: Config, samples: int) -> int:
    """Return the epochs between two evaluation passes over the training set, 0 for the end only.

    A pass costs about a third of an epoch: unless ``train.record_every`` says otherwise there is
    one in every fourth epoch. An audit by training dynamics is made of these passes and has no
    tests: there it is every epoch if the samples are few.
    """
    if config.train.record_every is not None:
        return config.train.record_every
    return 1 if config.data.fold == ALL and samples <= _FEW_SAMPLES else 4


class Recorder:
    """Collects training dynamics and snapshots of the head's scores; part of the checkpoint.

    Args:
        noise: The labels of the training samples.
        num_classes: Number of classes that the network tells apart.
        epochs: Epochs of the run.
        probabilities: Whether the dynamics average the probabilities of all classes.
    """

    def __init__(
        self, noise: NoisyLabels, num_classes: int, epochs: int, *, probabilities: bool = False
    ):
        self._noise = noise
        self._epochs = epochs
        self._every = max(1, math.ceil(epochs / _MAX_SNAPSHOTS))
        self.dynamics = TrainingDynamics(len(noise), num_classes, probabilities=probabilities)
        """What happened to each sample in the evaluations so far."""
        self._snapshots: list[dict[str, Any]] = []

    def record_samples(self, evaluation: Evaluation) -> dict[str, float | None]:
        """Add an evaluation of the training set.

        Returns:
            Confidence and memorisation by right and wrong label, where true labels are known.
        """
        self.dynamics.add(
            np.arange(len(evaluation.labels)),
            evaluation.labels,
            loss=evaluation.loss,
            margin=evaluation.margin,
            confidence=evaluation.confidence,
            predicted=evaluation.predicted,
            probs=evaluation.probs,
        )
        given, clean = self._noise.noisy, self._noise.clean
        if clean is None:
            return {}
        return confidence_split(evaluation.confidence, given, clean) | memorisation(
            evaluation.predicted, given, clean
        )

    def record_head(self, net: nn.Module, epoch: int, retention: float | None) -> None:
        """Add the scores of the head, at about fifty evenly spaced epochs."""
        if epoch % self._every and epoch != self._epochs - 1:
            return
        snapshot = score_snapshot(net)
        if snapshot is not None:
            self._snapshots.append(
                {
                    "epoch": epoch,
                    "retention": retention if retention is not None else math.nan,
                    "scores": snapshot.scores,
                    "columns": snapshot.columns,
                    "histogram": snapshot.histogram,
                }
            )

    def trust(self, own: Tensor | None) -> NDArray[Any]:
        """Return the probability that each given label is right.

        Args:
            own: The method's own estimate; None estimates it from the mean losses.
        """
        if own is not None:
            return own.detach().float().cpu().numpy()
        return trust_from_losses(self.dynamics.mean_loss)

    def head_arrays(self) -> dict[str, NDArray[Any]]:
        """Return what ``head.npz`` holds; nothing for a head without scores."""
        snapshots = self._snapshots
        if not snapshots:
            return {}
        return {
            "epochs": np.array([s["epoch"] for s in snapshots]),
            "retention": np.array([s["retention"] for s in snapshots], np.float32),
            "scores": torch.stack([s["scores"] for s in snapshots]).numpy(),
            "columns": snapshots[0]["columns"].numpy(),
            "histogram": torch.stack([s["histogram"] for s in snapshots]).numpy(),
            "edges": np.linspace(0.0, 1.0, BINS + 1),
        }

    def state_dict(self) -> dict[str, Any]:
        """Return everything recorded."""
        return {
            "dynamics": self.dynamics.state_dict(),
            "snapshots": list(self._snapshots),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what :meth:`state_dict` returned."""
        self.dynamics.load_state_dict(state["dynamics"])
        self._snapshots = list(state["snapshots"])
