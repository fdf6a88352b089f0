"""Testing: every sample once, whatever the number of processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from edgemask.data import Batch, DataBundle, Split
from edgemask.diagnostics import calibration
from edgemask.engine.metrics import accuracies
from edgemask.engine.passes import over_samples
from edgemask.engine.processes import Processes

__all__ = ["Outcome", "Tester"]

_BY = "predicted by "


@dataclass(frozen=True)
class Outcome:
    """A model's answers on a set of samples, judged by some labels."""

    predicted: NDArray[np.int64]
    """The likeliest class of each sample."""

    confidence: NDArray[np.float32]
    """The probability of each sample's label."""

    loss: NDArray[np.float32]
    """The cross entropy of each sample's label."""

    labels: NDArray[np.int64]
    """The labels."""

    top5: NDArray[np.bool_]
    """Whether the label is among the five likeliest classes."""

    certainty: NDArray[np.float32]
    """The probability of the likeliest class."""

    squares: NDArray[np.float32]
    """The squared distance of the probabilities from the label's one-hot row."""

    by_network: Mapping[str, NDArray[np.int64]]
    """The likeliest class of each sample, by each network alone."""

    def metrics(self, prefix: str, num_classes: int, *, top5: bool = False) -> dict[str, Any]:
        """Return accuracies under flat keys.

        Where several networks answer together, ``networks_accuracy`` is the mean of their own
        accuracies, as some methods are reported, and ``accuracy`` that of their joint answer.
        """
        accuracy, balanced, _ = accuracies(self.predicted, self.labels, num_classes)
        result = {f"{prefix}/accuracy": accuracy, f"{prefix}/balanced_accuracy": balanced}
        if top5:
            result[f"{prefix}/top5"] = float(self.top5.mean())
        if len(self.by_network) > 1:
            own = {
                name: float((own == self.labels).mean()) for name, own in self.by_network.items()
            }
            result |= {f"{prefix}/accuracy.{name}": value for name, value in own.items()}
            result[f"{prefix}/networks_accuracy"] = float(np.mean(list(own.values())))
        return result

    def calibration(self, prefix: str) -> dict[str, float]:
        """Return how well the probabilities fit, under flat keys."""
        right = self.predicted == self.labels
        values = calibration(self.certainty, right, loss=self.loss, squares=self.squares)
        return {f"{prefix}/{name}": value for name, value in values.items()}

    def per_class(self, num_classes: int) -> list[float | None]:
        """Return the accuracy of each class, None for one without samples."""
        return accuracies(self.predicted, self.labels, num_classes)[2]


@dataclass(frozen=True, kw_only=True)
class Tester:
    """Runs a model over samples and judges it."""

    answers: Callable[[Tensor], Mapping[str, Tensor]]
    """Inputs -> the logits of each network; their mean is the model's answer."""

    nets: dict[str, nn.Module]
    """The networks behind it."""

    bundle: DataBundle
    """The dataset."""

    processes: Processes
    """The processes that share the work."""

    batch_size: int
    """Samples of one pass."""

    workers: int = 0
    """Processes that read ahead."""

    def __call__(self, split: Split, labels: Any = None) -> Outcome:
        """Judge the model on a split by its own labels or by others."""
        given = torch.as_tensor(split.labels if labels is None else labels).long()
        rows = over_samples(
            self._judge,
            split,
            targets=given,
            bundle=self.bundle,
            processes=self.processes,
            nets=self.nets,
            batch_size=self.batch_size,
            workers=self.workers,
        )
        return Outcome(
            predicted=rows["predicted"].numpy(),
            confidence=rows["confidence"].numpy(),
            loss=rows["loss"].numpy(),
            labels=given.numpy(),
            top5=rows["top5"].numpy(),
            certainty=rows["certainty"].numpy(),
            squares=rows["squares"].numpy(),
            by_network={
                name.removeprefix(_BY): values.numpy()
                for name, values in rows.items()
                if name.startswith(_BY)
            },
        )

    def _judge(self, batch: Batch) -> dict[str, Tensor]:
        (x,), target = batch.views, batch.target
        answers = {name: logits.float() for name, logits in self.answers(x).items()}
        logs = F.log_softmax(torch.stack(list(answers.values())).mean(0), dim=1)
        own = logs.gather(1, target[:, None]).squeeze(1)
        chances = logs.exp()
        top = logs.topk(min(5, logs.shape[1]), dim=1).indices
        return {
            "predicted": logs.argmax(1),
            "confidence": own.exp(),
            "loss": -own,
            "top5": (top == target[:, None]).any(1),
            "certainty": chances.amax(1),
            "squares": chances.square().sum(1) - 2 * own.exp() + 1,
            **{f"{_BY}{name}": logits.argmax(1) for name, logits in answers.items()},
        }
