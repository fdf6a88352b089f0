"""Terms of losses: divergences, consistency, contrast, negative learning, priors."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

__all__ = [
    "contrastive_loss",
    "full_precision",
    "info_nce",
    "js_divergence",
    "kl_divergence",
    "negative_cosine",
    "negative_entropy",
    "negative_learning",
    "neighbour_consistency",
    "prior_penalty",
    "safe_mean",
    "symmetric_kl",
]


def full_precision(values: Tensor) -> Tensor:
    """Return values in float32 at least."""
    return values if values.dtype == torch.float64 else values.float()


def kl_divergence(log_p: Tensor, log_q: Tensor, *, base: float = math.e) -> Tensor:
    """Return ``KL(p || q) = sum_c p_c log(p_c / q_c)`` of each row.

    Args:
        log_p: Natural logarithms of p, such as ``log_softmax`` gives, ``(..., C)``.
        log_q: Natural logarithms of q.
        base: Base of the logarithm in the result.

    Example:
        >>> p, q = torch.tensor([[0.5, 0.5]]), torch.tensor([[0.25, 0.75]])
        >>> round(float(kl_divergence(p.log(), q.log(), base=2)), 4)
        0.2075
    """
    return (log_p.exp() * (log_p - log_q)).sum(dim=-1) / math.log(base)


def symmetric_kl(first: Tensor, second: Tensor, *, base: float = math.e) -> Tensor:
    """Return ``KL(p || q) + KL(q || p)`` of each row, from the logits of p and q.

    Nothing is detached: both sides move towards each other. JoCoR takes the natural logarithm,
    Jo-SRC and Jo-SNC take base 2.

    Args:
        first: Logits of p, ``(B, C)``.
        second: Logits of q.
        base: Base of the logarithm.
    """
    log_p = F.log_softmax(full_precision(first), dim=-1)
    log_q = F.log_softmax(full_precision(second), dim=-1)
    # The two sums in one: sum (p - q) (log p - log q).
    return ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum(dim=-1) / math.log(base)


def js_divergence(p: Tensor, q: Tensor, *, base: float = 2.0) -> Tensor:
    """Return ``JS(p, q) = H((p + q) / 2) - (H(p) + H(q)) / 2`` of each row, H being the entropy.

    It lies between 0 and ``log_base 2``: 1 in base 2 (Jo-SRC, Jo-SNC), 0.693 in base e (UNICON).
    Thresholds depend on the base, so it is an argument. Zeros are allowed.

    Args:
        p: Probabilities, ``(..., C)``.
        q: Probabilities; shapes broadcast.
        base: Base of the logarithm.

    Example:
        >>> p, q = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])
        >>> float(js_divergence(p, q)), round(float(js_divergence(p, q, base=math.e)), 3)
        (1.0, 0.693)
    """
    gap = _entropy((p + q) / 2) - (_entropy(p) + _entropy(q)) / 2
    # Rounding must not make a distance of equal rows negative.
    return gap.clamp(min=0) / math.log(base)


def _entropy(p: Tensor) -> Tensor:
    return -(p * p.clamp(min=torch.finfo(p.dtype).tiny).log()).sum(dim=-1)


def safe_mean(values: Tensor, rows: Tensor | None = None) -> Tensor:
    """Return the mean over some rows, and 0 (with a gradient of 0) over none.

    Args:
        values: One value per sample, ``(B,)``.
        rows: Which samples count, as a mask or as positions; None means all.

    Example:
        >>> values = torch.tensor([1.0, 3.0, 8.0])
        >>> float(safe_mean(values, torch.tensor([True, True, False])))
        2.0
        >>> float(safe_mean(values, torch.tensor([], dtype=torch.long)))
        0.0
    """
    if rows is not None and rows.dtype == torch.bool:
        # Not values[rows], whose size the host would have to wait for.
        return torch.where(rows, values, 0.0).sum() / rows.sum().clamp(min=1)
    chosen = values if rows is None else values[rows]
    return chosen.sum() / max(len(chosen), 1)


def negative_entropy(logits: Tensor, *, rectified: bool = False) -> Tensor:
    """Return ``sum_c p_c log p_c`` of each row: added to a loss, it keeps predictions unsure.

    Args:
        logits: ``(B, C)``.
        rectified: Whether negative logits are set to 0 first, as the released code of CA2C does;
            they then feel no penalty.

    Reference:
        Pereyra et al., Regularizing Neural Networks by Penalizing Confident Output Distributions,
        ICLR workshop 2017.
    """
    logits = full_precision(logits)
    log_p = F.log_softmax(logits.clamp(min=0) if rectified else logits, dim=1)
    return (log_p.exp() * log_p).sum(dim=1)


def negative_learning(logits: Tensor, wrong: Tensor) -> Tensor:
    """Return ``-sum_{c in wrong} log(1 - p_c)`` of each row: learn what a sample is not.

    Args:
        logits: ``(B, C)``.
        wrong: The complementary classes: a mask ``(B, C)``, or one class a row, ``(B,)``.

    Reference:
        Kim et al., NLNL: Negative Learning for Noisy Labels, ICCV 2019.
    """
    log_p = F.log_softmax(full_precision(logits), dim=1)
    # log(1 - p), with 1e-7 in it so that a sure p stays finite; the released codes do the same.
    log_not = torch.log1p(1e-7 - log_p.exp())
    if wrong.ndim == 1:
        return -log_not.gather(1, wrong[:, None]).squeeze(1)
    return -torch.where(wrong, log_not, 0.0).sum(dim=1)


def info_nce(query: Tensor, positive: Tensor, negatives: Tensor, *, temperature: float) -> Tensor:
    """Return ``-log(exp(q k+ / T) / (exp(q k+ / T) + sum_n exp(q n / T)))`` of each row.

    Args:
        query: Unit vectors, ``(B, D)``.
        positive: The partner of each, ``(B, D)``; detached by the caller where that is meant.
        negatives: Shared by all rows, ``(M, D)``; none gives a loss of 0.
        temperature: The temperature T.

    Reference:
        He et al., Momentum Contrast for Unsupervised Visual Representation Learning, CVPR 2020.
    """
    near = (query * positive).sum(dim=1, keepdim=True)
    far = query @ negatives.t().to(query)
    logits = full_precision(torch.cat([near, far], dim=1)) / temperature
    return -F.log_softmax(logits, dim=1)[:, 0]


def neighbour_consistency(logits: Tensor, target: Tensor, *, temperature: float = 2.0) -> Tensor:
    """Return ``T^2 KL_2(softmax(z / T) || target)`` of each row, the student first, in base 2.

    Args:
        logits: The student's, z, ``(B, C)``.
        target: What its neighbours say, ``(B, C)``, above 0 everywhere.
        temperature: The temperature T.

    Reference:
        Iscen et al., Learning with Neighbor Consistency for Noisy Labels, CVPR 2022.
    """
    log_p = F.log_softmax(full_precision(logits) / temperature, dim=1)
    log_q = target.clamp(min=1e-6).log()
    return temperature**2 * kl_divergence(log_p, log_q, base=2)


def contrastive_loss(first: Tensor, second: Tensor, *, temperature: float = 0.05) -> Tensor:
    """Return the SimCLR loss of two views, averaged over all 2B projections.

    ``-log(exp(z_i z_j / T) / sum_{k != i} exp(z_i z_k / T))``, j being the other view of i.

    Args:
        first: Projections of unit length, ``(B, D)``.
        second: Those of the other view.
        temperature: The temperature T.

    Reference:
        Chen et al., A Simple Framework for Contrastive Learning of Visual Representations,
        ICML 2020.
    """
    size = len(first)
    both = full_precision(torch.cat([first, second]))
    similarity = both @ both.t() / temperature
    itself = torch.eye(2 * size, dtype=torch.bool, device=both.device)
    partner = torch.arange(2 * size, device=both.device).roll(size)
    return F.cross_entropy(similarity.masked_fill(itself, -torch.inf), partner)


def negative_cosine(prediction: Tensor, target: Tensor) -> Tensor:
    """Return ``-cos(prediction, target)`` of each row; nothing flows back through the target.

    Args:
        prediction: ``(B, D)``, of any length.
        target: ``(B, D)``.

    Reference:
        Chen and He, Exploring Simple Siamese Representation Learning, CVPR 2021.
    """
    target = full_precision(target.detach())
    return -F.cosine_similarity(full_precision(prediction), target, dim=1)


def prior_penalty(logits: Tensor) -> Tensor:
    """Return ``sum_c (1/C) log((1/C) / mean_i p_ic)``: 0 where all classes are predicted alike.

    It keeps a network that learns from its own guesses from putting everything in one class.

    Args:
        logits: Scores of a batch, ``(B, C)``, of all processes.

    Reference:
        Tanaka et al., Joint Optimization Framework for Learning with Noisy Labels, CVPR 2018, as in
        DivideMix, Eq. 11.
    """
    prior = 1.0 / logits.shape[1]
    # The mean of probabilities from their logarithms: a class that nobody is predicted as has a
    # finite penalty and a gradient.
    log_mean = full_precision(logits).log_softmax(dim=1).logsumexp(dim=0) - math.log(len(logits))
    return (prior * (math.log(prior) - log_mean)).sum()
