"""Training dynamics: what happens to each sample while a network learns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemask.audit.label_audit import LabelAudit
from edgemask.audit.probabilities import from_probabilities
from edgemask.audit.verdict import Verdict
from edgemask.errors import MissingExtraError, UserError
from edgemask.noise._checks import Int64

__all__ = ["TrainingDynamics"]

Floats = NDArray[np.float64]

_SUMS = ("loss", "margin", "own", "own_squared")
_SEEN = (
    "The network has learnt from the labels that it is compared with. For a statement about their "
    "share, audit in folds, or check 100 labels by hand."
)


class TrainingDynamics:
    """Collects, in any training loop, how well each sample's given label is learnt.

    Call :meth:`update` with every batch, in training or in an evaluation pass after each epoch.
    Wrong labels are learnt late, forgotten more often, and keep a large loss and a small margin.

    Args:
        num_samples: Number of samples; an ``index`` is below it.
        num_classes: Number of classes.
        probabilities: Whether to average the probabilities of all classes, which
            :meth:`audit` needs: 4 bytes per sample and class.

    Reference:
        Pleiss et al., "Identifying mislabeled data using the area under the margin ranking",
        NeurIPS 2020; Toneva et al., "An empirical study of example forgetting", ICLR 2019;
        Swayamdipta et al., "Dataset cartography", EMNLP 2020.

    Example:
        >>> dynamics = TrainingDynamics(4, 2)
        >>> for epoch in range(3):
        ...     logits = np.array([[2.0, 0.0], [1.0, 0.0], [0.0, 1.0], [3.0, 0.0]])
        ...     dynamics.update(np.arange(4), logits, [0, 0, 1, 1])
        >>> dynamics.aum.tolist(), dynamics.agreement.tolist()
        ([2.0, 1.0, 1.0, -3.0], [1.0, 1.0, 1.0, 0.0])
        >>> dynamics.suspects()[["id", "given", "suggested", "reason"]].values.tolist()
        [['3', '1', '0', 'never learnt']]
    """

    def __init__(self, num_samples: int, num_classes: int, *, probabilities: bool = True):
        if num_samples < 1 or num_classes < 2:
            raise UserError(
                f"TrainingDynamics needs samples and at least two classes, got {num_samples} and "
                f"{num_classes}"
            )
        self._arrays: dict[str, NDArray[Any]] = {
            "count": np.zeros(num_samples, dtype=np.int32),
            "agreed": np.zeros(num_samples, dtype=np.int32),
            "forgotten": np.zeros(num_samples, dtype=np.int32),
            "agrees": np.zeros(num_samples, dtype=bool),
            "label": np.full(num_samples, -1, dtype=np.int32),
            **{name: np.zeros(num_samples) for name in _SUMS},
        }
        if probabilities:
            self._arrays["probs"] = np.zeros((num_samples, num_classes), dtype=np.float32)
        self.num_classes = num_classes

    def __len__(self) -> int:
        return len(self._arrays["count"])

    @property
    def has_probabilities(self) -> bool:
        """Whether the probabilities of all classes are averaged."""
        return "probs" in self._arrays

    def update(self, index: Any, logits: Any, labels: Any) -> None:
        """Add the outputs of a batch.

        Args:
            index: Position of each sample in the dataset, ``(B,)``; no position twice.
            logits: The network's outputs before the softmax, ``(B, C)``; arrays or tensors.
            labels: The given labels, ``(B,)``.
        """
        z = _array(logits).astype(np.float64)
        given = _array(labels).astype(np.int64)
        if z.ndim != 2 or z.shape[1] != self.num_classes or given.shape != (len(z),):
            raise UserError(
                f"update needs logits (B, {self.num_classes}) and as many labels, got "
                f"{z.shape} and {given.shape}"
            )
        row = np.arange(len(z))
        log_probs = z - z.max(axis=1, keepdims=True)
        log_probs -= np.log(np.exp(log_probs).sum(axis=1, keepdims=True))
        predicted = z.argmax(axis=1)
        mine = log_probs[row, given]
        probs = np.exp(log_probs) if self.has_probabilities else None
        log_probs[row, given] = -np.inf
        self.add(
            index,
            given,
            loss=-mine,
            margin=mine - log_probs.max(axis=1),
            confidence=np.exp(mine),
            predicted=predicted,
            probs=probs,
        )

    def add(
        self,
        index: Any,
        labels: Any,
        *,
        loss: NDArray[Any],
        margin: NDArray[Any],
        confidence: NDArray[Any],
        predicted: NDArray[Any],
        probs: NDArray[Any] | None = None,
    ) -> None:
        """Add what is known of a batch, where logits are not at hand.

        Args:
            index: Position of each sample; no position twice.
            labels: The given labels.
            loss: Cross entropy of the given label.
            margin: Logit of the given label minus the largest other one.
            confidence: Probability of the given label.
            predicted: The likeliest class.
            probs: Probability of every class, where these are averaged.
        """
        place, given = _array(index).astype(np.int64), _array(labels).astype(np.int64)
        if len(place) and not (place.min() >= 0 and place.max() < len(self)):
            raise UserError(f"index must be from 0 to {len(self) - 1}, got {place.max()}")
        if len(np.unique(place)) != len(place):
            raise UserError("index names a sample twice; update with each sample once per batch")
        if self.has_probabilities and probs is None:
            raise UserError("probs are missing, and these dynamics average probabilities")
        arrays, agrees = self._arrays, predicted == given
        arrays["forgotten"][place] += arrays["agrees"][place] & ~agrees
        arrays["agrees"][place] = agrees
        arrays["agreed"][place] += agrees
        arrays["count"][place] += 1
        arrays["label"][place] = given
        values = zip(_SUMS, (loss, margin, confidence, np.square(confidence)), strict=True)
        for name, numbers in values:
            arrays[name][place] += numbers
        if self.has_probabilities:
            arrays["probs"][place] += probs

    @property
    def mean_loss(self) -> Floats:
        """Cross entropy of each given label, averaged over updates; NaN before the first."""
        return self._mean("loss")

    @property
    def aum(self) -> Floats:
        """Area under the margin: logit of the given label minus the largest other, averaged."""
        return self._mean("margin")

    @property
    def agreement(self) -> Floats:
        """Share of the updates at which the network predicted the given label."""
        return self._mean("agreed")

    @property
    def forgetting(self) -> Int64:
        """How often the given label was predicted and at the next update was not."""
        return self._arrays["forgotten"].astype(np.int64)

    @property
    def confidence(self) -> Floats:
        """Probability of the given label, averaged over updates."""
        return self._mean("own")

    @property
    def variability(self) -> Floats:
        """Standard deviation of the given label's probability over updates."""
        variance = self._mean("own_squared") - np.square(self._mean("own"))
        return np.sqrt(np.maximum(variance, 0.0))

    def _mean(self, name: str) -> Floats:
        count = self._arrays["count"]
        total = self._arrays[name].astype(np.float64)
        return np.where(count > 0, total / np.maximum(count, 1), np.nan)

    def audit(
        self,
        *,
        ids: Sequence[str] | None = None,
        class_names: Sequence[str] | None = None,
        others: Sequence[NDArray[Any]] = (),
    ) -> LabelAudit:
        """Return trust, suspects and reasons from the averaged probabilities.

        The network has learnt from these very labels, so nothing is said of the share of wrong
        ones.

        Args:
            ids: What to call each sample; its position otherwise.
            class_names: One name per class.
            others: Probabilities of further models that have not seen the labels, ``(N, C)`` each,
                to average with these. How many samples are worth checking is then theirs to say.
        """
        arrays = self._arrays
        if not self.has_probabilities:
            raise UserError("audit needs TrainingDynamics(..., probabilities=True)")
        unseen = np.flatnonzero(arrays["count"] == 0)
        if unseen.size:
            raise UserError(f"sample {unseen[0]} was never updated, nor were {unseen.size} in all")
        probs = arrays["probs"] / arrays["count"][:, None]
        names = class_names or [str(number) for number in range(self.num_classes)]
        result = from_probabilities(
            arrays["label"],
            [probs, *others],
            ids=ids,
            class_names=names,
            out_of_sample=[False, *(True for _ in others)],
            source="dynamics",
        )
        disagrees = 1.0 - self.agreement
        reasons = np.select(
            [disagrees == 1, self.forgetting > 1, disagrees > 0.5],
            ["never learnt", "forgotten again and again", "learnt late"],
            default="",
        )
        return replace(
            result,
            reason=[own or word for own, word in zip(reasons, result.reason, strict=True)],
            rate=seen_verdict(float((probs.argmax(axis=1) != arrays["label"]).mean())),
        )

    def suspects(
        self, *, ids: Sequence[str] | None = None, class_names: Sequence[str] | None = None
    ) -> Any:
        """Return the samples worth checking as a pandas frame, in the order of their ranks."""
        return self.audit(ids=ids, class_names=class_names).suspects

    def plot(self, path: str | Path) -> Path:
        """Draw the data map: confidence over variability, coloured by agreement.

        Samples at the lower left are those that the network hardly ever agrees with: wrong labels,
        or samples that belong to no class.

        Args:
            path: The picture to write; its ending says which kind (``.png``, ``.svg``, ``.pdf``).
        """
        try:
            from matplotlib.figure import Figure
        except ImportError as error:
            raise MissingExtraError("matplotlib", "app", "to draw a data map", error) from error
        figure = Figure(figsize=(6.4, 5.0), layout="constrained")
        axes = figure.add_subplot()
        shown = np.flatnonzero(self._arrays["count"])
        if len(shown) > 20_000:
            shown = np.random.default_rng(0).choice(shown, 20_000, replace=False)
        points = axes.scatter(
            self.variability[shown],
            self.confidence[shown],
            c=self.agreement[shown],
            s=8,
            cmap="viridis",
            vmin=0,
            vmax=1,
            linewidths=0,
            rasterized=True,
        )
        axes.set_xlabel("variability of the given label's probability")
        axes.set_ylabel("mean probability of the given label")
        axes.set_ylim(-0.02, 1.02)
        figure.colorbar(points, label="share of updates at which the label was predicted")
        figure.savefig(path, dpi=150)
        return Path(path)

    def state_dict(self) -> dict[str, Any]:
        """Return everything collected, as tensors."""
        import torch

        return {name: torch.from_numpy(array.copy()) for name, array in self._arrays.items()}

    def load_state_dict(self, state: Mapping[str, Any], index: Any = None) -> None:
        """Restore what :meth:`state_dict` returned.

        Args:
            state: What was collected.
            index: The positions of its samples in these dynamics; by default they are the same.
        """
        place = slice(None) if index is None else _array(index)
        for name, array in self._arrays.items():
            found = _array(state[name])
            if found.shape != array[place].shape:
                raise UserError(
                    f"the state is of {len(found)} samples, and these dynamics of {len(array)}"
                )
            array[place] = found


def seen_verdict(disagreement: float) -> Verdict:
    """Return what is said of the share where the model has seen the labels: nothing."""
    return Verdict(
        kind="cannot tell",
        lower=0.0,
        upper=None,
        disagreement=disagreement,
        sentence=(
            f"Cannot tell: the model disagrees with {100 * disagreement:.1f} % of the labels, and "
            "it has learnt from them."
        ),
        explanation=_SEEN,
    )


def _array(values: Any) -> NDArray[Any]:
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        half = values.is_floating_point() and values.element_size() < 4  # numpy has no bfloat16
        values = (values.float() if half else values).numpy()
    return np.asarray(values)
