"""Losses that know how labels go wrong: forward and backward correction by a transition matrix."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import KW_ONLY, field
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from edgemask._options import Check, Range
from edgemask.errors import DataError, UserError
from edgemask.losses.base import Loss, Rows, at_label, loss
from edgemask.runs import read_array

__all__ = [
    "BackwardCorrectionLoss",
    "ForwardCorrectionLoss",
    "TransitionLoss",
    "anchor_transition",
    "backward_correction",
    "forward_correction",
    "read_transition",
]

Matrix = Tensor | np.ndarray[Any, Any] | Sequence[Sequence[float]]


def forward_correction(log_probs: Tensor, target: Tensor, transition: Tensor) -> Tensor:
    """Return −log (Tᵀp)_y: the cross entropy of the noisy label that T makes of the prediction.

    Args:
        log_probs: Log-probabilities of the true classes, (N, C).
        target: Labels (N, 1), or label distributions (N, C).
        transition: T[i, j], the probability that class i is labelled j, (C, C).
    """
    tiny = torch.finfo(log_probs.dtype).tiny
    if target.is_floating_point():
        return -at_label((log_probs.exp() @ transition).clamp(min=tiny).log(), target)
    # A label that no class gets would have the loss infinity, and no gradient.
    used = (transition > 0).any(dim=0)
    columns = torch.where(used, transition, tiny).log().t()[target.squeeze(1)]
    return -torch.logsumexp(log_probs + columns, dim=1, keepdim=True)


def backward_correction(log_probs: Tensor, target: Tensor, inverse: Tensor) -> Tensor:
    """Return Σ_k (T⁻¹)_{yk}·(−log p_k), which is the loss of the true label on average.

    Args:
        log_probs: Log-probabilities of the true classes, (N, C).
        target: Labels (N, 1), or label distributions (N, C).
        inverse: The inverse of the transition matrix, (C, C).
    """
    weights = target @ inverse if target.is_floating_point() else inverse[target.squeeze(1)]
    return -(weights * log_probs).sum(dim=1, keepdim=True)


def anchor_transition(probabilities: Tensor, quantile: float = 0.97) -> Tensor:
    """Estimate the transition matrix from predictions of noisy labels, by anchor points.

    Row i is the prediction for the sample that is most surely of class i: the one at the given
    quantile of ``p_i``, since the very largest may be an outlier.

    Args:
        probabilities: Predictions of a network trained on the noisy labels, (N, C).
        quantile: 1 takes the sample with the largest ``p_i``.

    Example:
        >>> probs = torch.tensor([[0.8, 0.2], [0.6, 0.4], [0.1, 0.9]])
        >>> anchor_transition(probs, quantile=1.0)
        tensor([[0.8000, 0.2000],
                [0.1000, 0.9000]])
    """
    order = probabilities.argsort(dim=0, stable=True)
    anchors = order[round(quantile * (len(probabilities) - 1))]
    rows = probabilities[anchors]
    return rows / rows.sum(dim=1, keepdim=True)


def read_transition(source: Matrix | str) -> Tensor:
    """Return a transition matrix, (C, C), from numbers, a file or an audit.

    Args:
        source: The matrix, its row i the probabilities of the labels that class i gets; a file
            ``.npy`` or ``.json`` with it; or the folder of an audit (or its ``audit.json``).
    """
    values: Any = _from_file(Path(source).expanduser()) if isinstance(source, str) else source
    try:
        matrix = torch.as_tensor(np.asarray(values, dtype=np.float64))
    except (TypeError, ValueError):
        matrix = torch.empty(0)
    where = f" in {source}" if isinstance(source, str) else ""
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or len(matrix) < 2:
        raise UserError(
            f"transition matrix{where} of shape {tuple(matrix.shape)}: expected one row and one "
            "column for each class"
        )
    if not bool(matrix.isfinite().all() & (matrix >= 0).all()):
        raise UserError(f"transition matrix{where}: expected probabilities, of 0 to 1")
    off = (matrix.sum(dim=1) - 1).abs()
    if bool((off > 1e-3).any()):
        row = int(off.argmax())
        hint = "; transpose it" if torch.allclose(matrix.sum(dim=0), torch.ones(1).double()) else ""
        raise UserError(
            f"transition matrix{where}: row {row} sums to {float(matrix[row].sum()):.4g}, expected "
            f"1: row i holds the probabilities of the labels that class i gets{hint}"
        )
    return matrix / matrix.sum(dim=1, keepdim=True)


def _from_file(path: Path) -> Any:
    path = path / "audit.json" if path.is_dir() else path
    try:
        if path.suffix == ".npy":
            return read_array(path)
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError, UserError) as error:
        raise DataError(
            f"no transition matrix in {path}: {error}. Name a .npy or .json file, or the folder of "
            "an audit"
        ) from error
    return content.get("transition_matrix") if isinstance(content, dict) else content


@loss
class TransitionLoss(Loss):
    """A loss that is corrected by the transition matrix T of the labels.

    Without ``matrix`` it is plain cross entropy until T is set by :meth:`estimate`, which the
    engine calls after ``warmup`` epochs; in a loop of your own, call it yourself.

    Args:
        matrix: T[i, j], the probability that class i is labelled j: rows of numbers, a ``.npy`` or
            ``.json`` file, or the folder of an audit. None: estimated.
        num_classes: Number of classes, for a matrix that is estimated.
        warmup: Epochs of plain cross entropy before it is estimated; None: a fifth of the run.
        quantile: Which sample of a class the estimate relies on; see :func:`anchor_transition`.
    """

    files: ClassVar[tuple[str, ...]] = ("matrix",)

    matrix: Annotated[Any, Check(read_transition)] = None
    _: KW_ONLY
    num_classes: Annotated[int, Range(2)] | None = None
    warmup: Annotated[int, Range(1)] | None = None
    quantile: Annotated[float, Range(above=0, high=1)] = 0.97
    transition: Tensor = field(init=False)
    correction: Tensor = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.matrix is not None:
            matrix = read_transition(self.matrix)
        elif self.num_classes is not None:
            matrix = torch.eye(self.num_classes, dtype=torch.float64)
        else:
            raise UserError(
                f"{type(self).__name__}: give matrix=, or num_classes= for one that is estimated"
            )
        self.register_buffer("transition", matrix.float())
        self.register_buffer("correction", self.correct(matrix).float())

    def correct(self, matrix: Tensor) -> Tensor:
        """Return what the formula needs of T, (C, C)."""
        return matrix

    def estimate(self, probabilities: Tensor) -> None:
        """Set T from the network's predictions of all training samples, (N, C)."""
        matrix = anchor_transition(probabilities.double(), self.quantile)
        self.transition.copy_(matrix)
        self.correction.copy_(self.correct(matrix))

    def values(self, rows: Rows, index: Tensor | None) -> Tensor:
        """Return the loss of each row."""
        if rows.logits.shape[1] != len(self.transition):
            raise UserError(
                f"logits of {rows.logits.shape[1]} classes: the transition matrix has "
                f"{len(self.transition)}"
            )
        return super().values(rows, index)


@loss
class ForwardCorrectionLoss(TransitionLoss):
    """Forward correction: predict the true class, and compare what T makes of it with the label.

    Args:
        matrix: T[i, j], the probability that class i is labelled j: rows of numbers, a ``.npy`` or
            ``.json`` file, or the folder of an audit. None: estimated.
        num_classes: Number of classes, for a matrix that is estimated.
        warmup: Epochs of plain cross entropy before it is estimated; None: a fifth of the run.
        quantile: Which sample of a class the estimate relies on; see :func:`anchor_transition`.

    Example:
        >>> loss = ForwardCorrectionLoss([[0.8, 0.2], [0.0, 1.0]])
        >>> loss(torch.tensor([[100.0, 0.0]]), torch.tensor([1])).exp()
        tensor(5.)
    """

    equation = "−log Σ_i p_i·T_iy"
    reference = (
        "Patrini et al., Making Deep Neural Networks Robust to Label Noise: A Loss Correction "
        "Approach, CVPR 2017, Theorem 2"
    )

    def formula(self, log_probs: Tensor, target: Tensor) -> Tensor:
        """Return −log (Tᵀp)_y."""
        return forward_correction(log_probs, target, self.correction.to(log_probs))


@loss
class BackwardCorrectionLoss(TransitionLoss):
    """Backward correction: weigh the losses of all labels so that their mean is the clean loss.

    It may be negative and has no lower bound, so that long runs lose what the first epochs gained;
    forward correction is easier to train. T must have an inverse.

    Args:
        matrix: T[i, j], the probability that class i is labelled j: rows of numbers, a ``.npy`` or
            ``.json`` file, or the folder of an audit. None: estimated.
        num_classes: Number of classes, for a matrix that is estimated.
        warmup: Epochs of plain cross entropy before it is estimated; None: a fifth of the run.
        quantile: Which sample of a class the estimate relies on; see :func:`anchor_transition`.
    """

    equation = "−Σ_k (T⁻¹)_yk·log p_k"
    reference = (
        "Patrini et al., Making Deep Neural Networks Robust to Label Noise: A Loss Correction "
        "Approach, CVPR 2017, Theorem 1"
    )

    def correct(self, matrix: Tensor) -> Tensor:
        """Return the inverse of T."""
        if not torch.linalg.cond(matrix) < 1e6:
            raise UserError(
                "backward-correction: the transition matrix has no inverse, two classes get the "
                "same labels; use forward-correction"
            )
        inverse: Tensor = torch.linalg.inv(matrix)
        return inverse

    def formula(self, log_probs: Tensor, target: Tensor) -> Tensor:
        """Return Σ_k (T⁻¹)_{yk}·(−log p_k)."""
        return backward_correction(log_probs, target, self.correction.to(log_probs))
