"""Targets to learn from in place of the given label."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from edgemask.methods.parts.neighbours import Neighbours

__all__ = [
    "co_guess",
    "count_labels",
    "flattened",
    "least_likely",
    "neighbour_target",
    "partial_labels",
    "refine_labels",
    "sharpen",
    "smoothed_labels",
    "top_classes",
]


def smoothed_labels(labels: Tensor, num_classes: int, rate: float) -> Tensor:
    """Return ``1 - rate`` on the label and ``rate / (C - 1)`` on every other class.

    Example:
        >>> smoothed_labels(torch.tensor([1]), 3, 0.6)
        tensor([[0.3000, 0.4000, 0.3000]])
    """
    others = rate / max(num_classes - 1, 1)
    target = torch.full((len(labels), num_classes), others, device=labels.device)
    return target.scatter_(1, labels[:, None], 1.0 - rate)


def top_classes(logits: Tensor, count: int) -> Tensor:
    """Return a mask of the ``count`` likeliest classes of each row, ``(B, C)`` bool.

    Its complement holds the classes that negative learning calls wrong.

    Example:
        >>> top_classes(torch.tensor([[0.1, 0.7, 0.2]]), 2)
        tensor([[False,  True,  True]])
    """
    top = logits.detach().topk(min(count, logits.shape[1]), dim=1).indices
    return torch.zeros_like(logits, dtype=torch.bool).scatter_(1, top, True)  # noqa: FBT003


def count_labels(counts: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Turn the votes that classes got over the epochs into labels (CA2C).

    Args:
        counts: Votes, ``(B, C)``; a row without any gives the uniform distribution.

    Returns:
        The hard label ``argmax``, the soft label ``counts / sum`` and the confidence ``max`` of it.

    Example:
        >>> hard, soft, confidence = count_labels(torch.tensor([[1.0, 3.0]]))
        >>> hard.tolist(), soft.tolist(), confidence.tolist()
        ([1], [[0.25, 0.75]], [0.75])
    """
    total = counts.sum(dim=1, keepdim=True)
    soft = torch.where(total > 0, counts / total.clamp(min=1), 1.0 / counts.shape[1])
    return counts.argmax(dim=1), soft, soft.amax(dim=1)


def partial_labels(teacher: Tensor, count: int, temperature: float) -> tuple[Tensor, Tensor]:
    """Take the teacher's ``count`` likeliest classes for candidates (Jo-SNC).

    The target is ``softmax(u)``, u being the teacher's probability t divided by the temperature on
    the candidates and t itself elsewhere; the weight is ``sqrt(sum of t over the candidates)``.
    With one candidate, or all classes, the target is t and the weight ``sqrt(max t)``.

    Args:
        teacher: Probabilities t, ``(B, C)``.
        count: Number of candidates.
        temperature: Below 1 to stress the candidates.

    Returns:
        Targets ``(B, C)`` and weights ``(B,)``.
    """
    if not 1 < count < teacher.shape[1]:
        return teacher, teacher.amax(dim=1).sqrt()
    top = top_classes(teacher, count)
    target = F.softmax(torch.where(top, teacher / temperature, teacher), dim=1)
    return target, torch.where(top, teacher, 0.0).sum(dim=1).sqrt()


def least_likely(teacher: Tensor) -> tuple[Tensor, Tensor]:
    """Take the teacher's least likely class for one that the sample surely is not (Jo-SNC).

    Returns:
        That class, ``(B,)``, and the weight ``(1 - min t)^2``.
    """
    low, label = teacher.min(dim=1)
    return label, (1.0 - low).square()


def flattened(probabilities: Tensor, temperature: float) -> Tensor:
    """Return ``softmax(p / T)`` of probabilities: nearly uniform, for samples of no class (Jo-SRC).

    Example:
        >>> flattened(torch.tensor([[1.0, 0.0]]), 10.0)
        tensor([[0.5250, 0.4750]])
    """
    return F.softmax(probabilities / temperature, dim=1)


def neighbour_target(
    neighbours: Neighbours, logits: Tensor, *, power: float = 0.3, temperature: float = 2.0
) -> tuple[Tensor, Tensor]:
    """Return what the neighbours of each sample say together (Jo-SNC).

    ``sum_n w_n softmax(z_n / T)``, with weights ``w_n = max(similarity, 0)^power`` that sum to 1.

    Args:
        neighbours: The neighbours of the batch.
        logits: The logits z of all keys, ``(M, C)``.
        power: Exponent of the similarity.
        temperature: The temperature T.

    Returns:
        Targets ``(B, C)``, and which rows have a neighbour of positive similarity, ``(B,)``.
    """
    # The slope of a power below 1 is infinite at 0, which would turn a gradient of 0 into NaN.
    near = neighbours.similarity > 0
    weight = torch.where(near, neighbours.similarity, 1.0).pow(power) * near
    total = weight.sum(dim=1, keepdim=True)
    predictions = F.softmax(logits[neighbours.position].float() / temperature, dim=2)
    target = (weight / total.clamp(min=1e-12)).unsqueeze(2).mul(predictions).sum(dim=1)
    return target, total.squeeze(1) > 0


def sharpen(probabilities: Tensor, temperature: float = 0.5) -> Tensor:
    """Return ``p^(1/T)``, scaled to sum to 1: peaked below temperature 1, flat above.

    Args:
        probabilities: Distributions, ``(B, C)``.
        temperature: The temperature T.

    Example:
        >>> sharpen(torch.tensor([[0.8, 0.2]]))
        tensor([[0.9412, 0.0588]])
    """
    # In logarithms: at small temperatures p^(1/T) itself underflows to 0.
    tiny = torch.finfo(probabilities.dtype).tiny
    return (probabilities.clamp(min=tiny).log() / temperature).softmax(dim=1)


def co_guess(logits: Sequence[Tensor]) -> Tensor:
    """Return the mean of the predictions of several networks and views.

    Args:
        logits: Scores of the same samples, each ``(B, C)``.
    """
    return torch.stack([scores.softmax(dim=1) for scores in logits]).mean(dim=0)


def refine_labels(labels: Tensor, weights: Tensor, guess: Tensor) -> Tensor:
    """Return ``w onehot(y) + (1 - w) p``: the label as far as it is trusted, else the guess.

    Args:
        labels: Given labels, ``(B,)``.
        weights: Trust in them, ``(B,)``.
        guess: Predictions, ``(B, C)``.
    """
    weight = weights.to(guess)[:, None]
    return weight * F.one_hot(labels, guess.shape[1]).to(guess) + (1 - weight) * guess
