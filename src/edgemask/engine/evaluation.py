"""Evaluation: every sample once, whatever the number of processes."""

from __future__ import annotations

import functools
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
from edgemask.engine.inference import over_samples
from edgemask.engine.metrics import accuracies
from edgemask.engine.processes import Processes
from edgemask.errors import UserError

__all__ = ["Evaluation", "Evaluator"]

_BY = "predicted by "


@dataclass(frozen=True)
class Evaluation:
    """A model's predictions on a set of samples, compared with labels."""

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

    margin: NDArray[np.float32]
    """The logit of each sample's label minus the largest other one."""

    probs: NDArray[np.float32] | None
    """The probability of every class, where it was asked for."""

    by_network: Mapping[str, NDArray[np.int64]]
    """The likeliest class of each sample, by each network alone."""

    def metrics(self, prefix: str, num_classes: int, *, top5: bool = False) -> dict[str, Any]:
        """Return accuracies under flat keys.

        Where the model is several networks, ``accuracy`` is that of their mean logits, and
        ``networks_accuracy`` the mean of their own accuracies, as some papers report it.
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
        """Return calibration errors of the probabilities under flat keys."""
        right = self.predicted == self.labels
        values = calibration(self.certainty, right, loss=self.loss, squares=self.squares)
        return {f"{prefix}/{name}": value for name, value in values.items()}

    def per_class(self, num_classes: int) -> list[float | None]:
        """Return the accuracy of each class, None for one without samples."""
        return accuracies(self.predicted, self.labels, num_classes)[2]


@dataclass(frozen=True, kw_only=True)
class Evaluator:
    """Runs a model over samples and compares its predictions with labels."""

    logits: Callable[[Tensor], Mapping[str, Tensor]]
    """Inputs -> the logits of each network; the model's logits are their mean."""

    nets: dict[str, nn.Module]
    """The networks that ``logits`` calls, to be put in ``eval()`` mode."""

    bundle: DataBundle
    """The dataset."""

    processes: Processes
    """The processes that share the work."""

    batch_size: int
    """Samples per forward pass."""

    workers: int = 0
    """Processes that read ahead."""

    def __call__(self, split: Split, labels: Any = None, *, probs: bool = False) -> Evaluation:
        """Evaluate the model on a split with its own labels or with others.

        Args:
            split: The samples.
            labels: Labels in place of the split's own.
            probs: Whether the result holds the probability of every class.
        """
        given = torch.as_tensor(split.labels if labels is None else labels).long()
        rows = over_samples(
            functools.partial(self._evaluate, keep_probs=probs),
            split,
            targets=given,
            bundle=self.bundle,
            processes=self.processes,
            nets=self.nets,
            batch_size=self.batch_size,
            workers=self.workers,
        )
        broken = int(rows["loss"].isnan().sum())
        if broken:
            raise UserError(
                f"the model's outputs for {broken} of {len(given)} samples are not numbers (NaN): "
                "its weights or these samples are unusable; in training, try a lower optim.lr"
            )
        return Evaluation(
            predicted=rows["predicted"].numpy(),
            confidence=rows["confidence"].numpy(),
            loss=rows["loss"].numpy(),
            labels=given.numpy(),
            top5=rows["top5"].numpy(),
            certainty=rows["certainty"].numpy(),
            squares=rows["squares"].numpy(),
            margin=rows["margin"].numpy(),
            probs=rows["probs"].numpy() if probs else None,
            by_network={
                name.removeprefix(_BY): values.numpy()
                for name, values in rows.items()
                if name.startswith(_BY)
            },
        )

    def test(
        self, splits: Mapping[str, Split], *, top5: bool
    ) -> tuple[dict[str, Evaluation], dict[str, Any]]:
        """Evaluate the model on several test sets.

        Args:
            splits: Test sets by the prefix of their metrics.
            top5: Whether to report top-5 accuracy too.

        Returns:
            The evaluations, and the accuracies of all of them under flat keys.
        """
        evaluations = {prefix: self(split) for prefix, split in splits.items()}
        numbers: dict[str, Any] = {}
        for prefix, evaluation in evaluations.items():
            numbers |= evaluation.metrics(prefix, self.bundle.num_classes, top5=top5)
        return evaluations, numbers

    def _evaluate(self, batch: Batch, *, keep_probs: bool) -> dict[str, Tensor]:
        (x,), target = batch.views, batch.target
        logits = {name: values.float() for name, values in self.logits(x).items()}
        log_probs = F.log_softmax(torch.stack(list(logits.values())).mean(0), dim=1)
        own = log_probs.gather(1, target[:, None]).squeeze(1)
        probs = log_probs.exp()
        top = log_probs.topk(min(5, log_probs.shape[1]), dim=1).indices
        others = log_probs.scatter(1, target[:, None], -torch.inf)
        return {
            "predicted": log_probs.argmax(1),
            "confidence": own.exp(),
            "loss": -own,
            "top5": (top == target[:, None]).any(1),
            "certainty": probs.amax(1),
            "squares": probs.square().sum(1) - 2 * own.exp() + 1,
            "margin": own - others.amax(1),
            **({"probs": probs} if keep_probs else {}),
            **{f"{_BY}{name}": values.argmax(1) for name, values in logits.items()},
        }
