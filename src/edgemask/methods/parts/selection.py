"""Which samples to learn from: small losses, mixtures, divergence from the label, balance."""

from __future__ import annotations

import math

import torch
from torch import Generator, Tensor

from edgemask.audit import fit_two_components, trust_from_losses
from edgemask.methods.parts.losses import js_divergence

__all__ = [
    "balanced_draw",
    "balanced_indices",
    "cleanness",
    "divergence_cutoff",
    "filled",
    "keep_count",
    "low_loss_posterior",
    "mean_where_unknown",
    "min_max",
    "small_loss",
    "smallest_by_class",
    "trust_from_probability",
    "uniform_selection",
]


def keep_count(size: int, drop: float) -> int:
    """Return how many samples of ``size`` stay when a share is dropped: ``int((1 - drop) size)``.

    Example:
        >>> keep_count(128, 0.2), keep_count(10, 0.9), keep_count(3, 1.0)
        (102, 1, 0)
    """
    # (1 - 0.9) * 10 is 0.9999999999999998.
    return int((1.0 - drop) * size + 1e-9)


def small_loss(losses: Tensor, drop: float) -> Tensor:
    """Return the positions of the samples with the smallest losses, smallest first.

    Networks learn right labels before wrong ones, so early in training a small loss suggests
    that the label is right. With the joint loss of two networks it is the criterion of JoCoR.

    Args:
        losses: One loss per sample, ``(B,)``.
        drop: The share of the largest losses that is left out; all may be, or none.

    Example:
        >>> small_loss(torch.tensor([3.0, 1.0, 2.0, 9.0]), 0.5).tolist()
        [1, 2]
    """
    order = torch.argsort(losses.detach(), stable=True)
    return order[: keep_count(len(losses), drop)]


def cleanness(probabilities: Tensor, target: Tensor, *, base: float = 2.0) -> Tensor:
    """Return ``1 - JS(p, target)``: how well a prediction fits the given label, from 0 to 1.

    A prediction equal to the target scores 1. Against a smoothed label a sure prediction scores
    less, even a right one, so these methods keep their networks about as unsure as the label.

    Args:
        probabilities: Predictions, ``(..., C)``.
        target: The given label as a distribution; shapes broadcast.
        base: Base of the logarithm; 2 keeps the result within 0 and 1.
    """
    return 1.0 - js_divergence(probabilities.detach(), target, base=base)


def divergence_cutoff(divergence: Tensor, *, adjust_above: float | None, tau: float) -> float:
    """Return the divergence below which labels are taken for right: the mean, lower if it is high.

    ``c = mean d``; where ``c / ln 2 > adjust_above`` most labels are doubted, and the cut-off is
    ``c - (c - min d) / tau``.

    Args:
        divergence: Jensen-Shannon divergence between prediction and given label in natural
            logarithms, ``(N,)``.
        adjust_above: Mean divergence, as a share of its largest value ln 2; None never adjusts.
        tau: Filter coefficient.

    Example:
        >>> d = torch.tensor([0.1, 0.3, 0.5])
        >>> round(divergence_cutoff(d, adjust_above=0.7, tau=5.0), 4)
        0.3
    """
    mean = float(divergence.mean())
    if adjust_above is not None and mean > adjust_above * math.log(2):
        mean -= (mean - float(divergence.min())) / tau
    return mean


def uniform_selection(
    divergence: Tensor, labels: Tensor, num_classes: int, *, cutoff: float
) -> Tensor:
    """Choose the same number of samples of each given class, those of smallest divergence.

    The number is ``int(R N / C)``, R being the share of all samples below the cut-off. A class with
    fewer samples gives all that it has.

    Args:
        divergence: Divergence between prediction and given label, ``(N,)``.
        labels: Given labels, ``(N,)``.
        num_classes: Number C of classes.
        cutoff: What counts as small.

    Returns:
        ``(N,)`` bool: whether a sample keeps its label.

    Reference:
        Karim et al., UNICON: Combating Label Noise Through Uniform Selection and Contrastive
        Learning, CVPR 2022, Section 3.1.
    """
    below = int((divergence < cutoff).sum())
    return smallest_by_class(divergence, labels, num_classes, below // num_classes)


def smallest_by_class(values: Tensor, labels: Tensor, num_classes: int, quota: int) -> Tensor:
    """Choose the samples of each class with the smallest values, at most ``quota`` of a class.

    Args:
        values: ``(N,)``.
        labels: ``(N,)``.
        num_classes: Number of classes.
        quota: Samples of each class; a class with fewer gives all that it has.

    Returns:
        ``(N,)`` bool: whether a sample is chosen.

    Example:
        >>> values, labels = torch.tensor([3.0, 1.0, 2.0, 9.0]), torch.tensor([0, 0, 0, 1])
        >>> smallest_by_class(values, labels, 2, 2).tolist()
        [False, True, True, True]
    """
    order = torch.argsort(values, stable=True)
    order = order[torch.argsort(labels[order], stable=True)]  # by class, then by value
    ordered = labels[order]
    starts = torch.searchsorted(ordered, torch.arange(num_classes, device=labels.device))
    rank = torch.arange(len(labels), device=labels.device) - starts[ordered]
    chosen = torch.zeros_like(labels, dtype=torch.bool)
    chosen[order[rank < quota]] = True
    return chosen


def filled(selected: Tensor, trust: Tensor, least: int) -> Tensor:
    """Return a selection, or the most trusted samples where it is smaller than ``least``.

    Args:
        selected: ``(N,)`` bool.
        trust: ``(N,)``.
        least: Samples that a phase needs, such as a batch.

    Example:
        >>> filled(torch.tensor([True, False, False]), torch.tensor([0.5, 0.1, 0.9]), 2).tolist()
        [True, False, True]
    """
    if int(selected.sum()) >= min(least, len(selected)):
        return selected
    best = torch.argsort(trust, descending=True, stable=True)[:least]
    return torch.zeros_like(selected).index_fill(0, best, True)  # noqa: FBT003


def mean_where_unknown(trust: Tensor) -> Tensor | None:
    """Return trust in which samples never scored (NaN) get the mean of all; None if all are.

    Example:
        >>> mean_where_unknown(torch.tensor([0.5, torch.nan, 1.0])).tolist()
        [0.5, 0.75, 1.0]
    """
    unknown = trust.isnan()
    return None if unknown.all() else torch.where(unknown, trust.nanmean(), trust)


def balanced_draw(labels: Tensor, size: int | None, *, seed: int, epoch: int) -> Tensor | None:
    """Draw equally many samples of each given class for an epoch, without repeats.

    Args:
        labels: The given labels, ``(N,)``.
        size: Samples of all classes together.
        seed: Names the random stream; the same in all processes.
        epoch: Likewise.

    Returns:
        Sorted positions; None, which means all samples, where ``size`` is None or not below N.
    """
    from edgemask.data import BalancedSubset

    if size is None or size >= len(labels):
        return None
    return torch.from_numpy(BalancedSubset(labels.cpu().numpy(), size, seed=seed)(epoch))


def balanced_indices(positions: Tensor, labels: Tensor, generator: Generator) -> Tensor:
    """Repeat samples until every class among them has as many entries as the largest one.

    A class is repeated as a whole as often as it fits, and a random part of it once more.

    Args:
        positions: The samples, ``(n,)``.
        labels: Their labels, ``(n,)``.
        generator: Draws that part; the same in all processes.

    Returns:
        Positions with repeats, by class, on the CPU: the ``indices`` of a feed.

    Example:
        >>> labels = torch.tensor([0, 0, 0, 0, 1, 1])
        >>> balanced_indices(torch.arange(6), labels, torch.Generator()).tolist()
        [0, 1, 2, 3, 4, 5, 4, 5]
    """
    from edgemask.data.splits import positions_by_class

    positions, labels = positions.cpu(), labels.cpu()
    groups = [positions[members] for members in positions_by_class(labels.numpy())]
    size = max(map(len, groups), default=0)
    balanced = [positions[:0]]
    for group in groups:
        whole, rest = divmod(size, len(group))
        part = torch.randperm(len(group), generator=generator)[:rest]
        balanced += [group.repeat(whole), group[part]]
    return torch.cat(balanced)


def min_max(values: Tensor) -> Tensor:
    """Scale values to [0, 1] by their smallest and largest finite one; equal ones become 0.

    Example:
        >>> min_max(torch.tensor([2.0, 4.0, 3.0])).tolist()
        [0.0, 1.0, 0.5]
    """
    finite = values[values.isfinite()]
    if not len(finite):
        return values
    low, width = finite.min(), finite.max() - finite.min()
    return (values - low) / (width if width > 0 else 1.0)


def low_loss_posterior(losses: Tensor, *, reg_covar: float = 5e-4) -> Tensor:
    """Return the probability that each loss comes from the lower of two Gaussians.

    Args:
        losses: One per sample, in [0, 1] (:func:`min_max`), ``(N,)``.
        reg_covar: Added to both variances.

    Returns:
        ``(N,)`` on the device of the losses. Losses that do not differ all have 1, one that is
        not finite has 0.

    Reference:
        Li et al., DivideMix, ICLR 2020, Section 3.1: 10 iterations, tolerance 1e-2.
    """
    fit = fit_two_components(losses.double().cpu().numpy(), normalise=False, reg_covar=reg_covar)
    return torch.from_numpy(fit.posterior_low).to(losses)


def trust_from_probability(values: Tensor) -> Tensor | None:
    """Return the trust in each label, which never falls with its probability p[y].

    How sure a network gets depends on how far its labels are smoothed. So two Gaussians are fitted
    to ``1 - p[y]``, and trust is the posterior of the lower one.

    Args:
        values: Predicted probability of each given label, ``(N,)``; NaN for a sample that was not
            seen.

    Returns:
        ``(N,)``, or None before all samples were seen.
    """
    if bool(values.isnan().any()):
        return None
    return torch.from_numpy(trust_from_losses(1.0 - values.cpu().double().numpy()))
