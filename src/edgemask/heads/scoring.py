"""One step of scoring and drawing: normalise, smooth, draw, in as few trips to memory as it takes.

What is computed is Eqs. 14-16 as :mod:`edgemask.heads.functional` states them. On a CPU, where
every operation on a large matrix is a trip to main memory and every fresh one a page fault, the
edges of a large head are worked through in blocks that stay in the cache, and the memory of a
mask that nobody looks at any more is used again. Elsewhere, and under ``torch.compile``, which
fuses by itself, whole tensors are used. All ways draw the same mask from scores that are the same
up to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch
from torch import Tensor

from edgemask.heads.functional import EPS, normalise_scores
from edgemask.heads.policies import Policy
from edgemask.heads.random import StepKey, counter_uniform
from edgemask.heads.workspace import Workspace, in_eager_mode_on_cpu

__all__ = ["RawScores", "Rule", "rows_of", "score_and_draw"]

_BLOCK = 1 << 16  # edges a thread; the few blocks in use at a time fit into its cache
# Scores that fade towards 0 without end become denormal numbers, which are slow to compute with.
# This is far below the smallest random number: it keeps no edge.
_FLOOR = 1e-12


class RawScores(NamedTuple):
    """The raw scores of a batch: magnitudes times a factor that does not differ between rows.

    Attributes:
        magnitudes: ``(rows, out) -> out``: writes the magnitudes of some rows of edges, or of all
            for None.
        factor: Not negative, of shape ``()`` or ``(d,)``.
    """

    magnitudes: Callable[[slice | None, Tensor], Tensor]
    factor: Tensor


def rows_of(matrix: Tensor, rows: slice | None) -> Tensor:
    """Return some rows, or the matrix itself for None, which is faster than a slice of all."""
    return matrix if rows is None else matrix[rows]


class Rule(NamedTuple):
    """The options that a step needs."""

    rho: float
    beta: float
    policy: Policy


def score_and_draw(
    raw: RawScores, scores: Tensor, steps: Tensor, key: StepKey, rule: Rule, workspace: Workspace
) -> Tensor:
    """Update the smoothed scores with a batch's raw ones and draw the step's mask.

    A batch whose scores are not finite (or that is empty, so that they are not numbers) leaves the
    scores and the step count as they are; before the first good batch every edge is kept.

    Args:
        raw: The raw scores of the batch.
        scores: Smoothed scores, ``(C, d)``; updated in place.
        steps: The number of steps so far; updated in place.
        key: What the mask's random numbers come from.
        rule: rho, beta and the policy.
        workspace: Where masks live.
    """
    if scores.numel() == 0:
        return torch.zeros_like(scores)
    if not in_eager_mode_on_cpu(scores):
        whole = raw.magnitudes(None, torch.empty_like(scores)).mul_(raw.factor)
        _smooth(whole, scores, steps, rule.beta)
        return _draw(scores, key, rule)
    small = scores.numel() <= _BLOCK * torch.get_num_threads()
    way = _score_and_draw_at_once if small else _score_and_draw_in_blocks
    return way(raw, scores, steps, key, rule, workspace)


def _score_and_draw_at_once(
    raw: RawScores, scores: Tensor, steps: Tensor, key: StepKey, rule: Rule, workspace: Workspace
) -> Tensor:
    """Work on all edges together, in as few operations as can be: a small head's time is calls."""
    mask = workspace.take(scores)
    new = raw.magnitudes(None, mask).mul_(raw.factor)  # in the mask's memory, which is free so far
    bounds = torch.aminmax(new)
    low, high = bounds.min.item(), bounds.max.item()
    first = steps.item() == 0
    if math.isfinite(high - low):
        steps.add_(1)
        if high > low:
            new.sub_(low - _FLOOR).mul_(1.0 / (high - low + EPS))
        else:
            new.fill_(1.0)
        scores.lerp_(new, 1.0 if first else 1.0 - rule.beta)
    elif first:
        scores.fill_(1.0)
    if not rule.policy.edgewise:
        return _draw(scores, key, rule)
    return rule.policy.draw(scores, rule.rho, counter_uniform(key, *scores.shape), out=mask)


def _score_and_draw_in_blocks(
    raw: RawScores, scores: Tensor, steps: Tensor, key: StepKey, rule: Rule, workspace: Workspace
) -> Tensor:
    """Work through the edges in blocks that stay in the cache: a large head's time is memory."""
    rows, columns = scores.shape
    height = max(1, _BLOCK * torch.get_num_threads() // columns)
    mask = workspace.take(scores)
    parts = [slice(top, min(top + height, rows)) for top in range(0, rows, height)]
    blocks = list(zip(parts, scores.split(height), mask.split(height), strict=True))

    # A product is largest where its magnitude is, column by column, so that the extremes of the
    # magnitudes are enough; and scaling the factor instead of the products saves a pass. Until a
    # block's mask is drawn its memory is free: what is computed on the way goes there.
    least, most = _extremes(raw.magnitudes(part, mask[: len(smooth)]) for part, smooth, _ in blocks)
    low, high = (least * raw.factor).min().item(), (most * raw.factor).max().item()
    usable = math.isfinite(high - low)
    first = steps.item() == 0
    if not usable and first:
        scores.fill_(1.0)
    steps += usable
    factor = raw.factor * (1.0 / (high - low + EPS))
    shift = (least * factor).min() - _FLOOR

    for part, smooth, kept in blocks:
        if usable:
            if high > low:
                raw.magnitudes(part, kept).mul_(factor).sub_(shift)
            else:
                kept.fill_(1.0)
            smooth.lerp_(kept, 1.0 if first else 1.0 - rule.beta)
        if rule.policy.edgewise:
            uniform = counter_uniform(key, len(smooth), columns, first=part.start)
            rule.policy.draw(smooth, rule.rho, uniform, out=kept)
    if not rule.policy.edgewise:
        mask.copy_(_draw(scores, key, rule))
    return mask


def _extremes(parts: Iterable[Tensor]) -> tuple[Tensor, Tensor]:
    """Return the smallest and largest entry of each column; what is not a number goes through."""
    bounds = [(part.amin(dim=0), part.amax(dim=0)) for part in parts]
    least, most = bounds[0]
    for low, high in bounds[1:]:
        torch.minimum(least, low, out=least)
        torch.maximum(most, high, out=most)
    return least, most


def _smooth(raw: Tensor, scores: Tensor, steps: Tensor, beta: float) -> None:
    """Eqs. 14 and 15 without a branch on a value, so that no device has to wait for another."""
    new = normalise_scores(raw)
    usable = torch.isfinite(raw.amax() - raw.amin())
    pace = torch.where(steps == 0, 1.0, torch.where(usable, 1.0 - beta, 0.0)).to(scores.dtype)
    scores.lerp_(torch.where(usable, new, 1.0), pace)
    steps += usable


def _draw(scores: Tensor, key: StepKey, rule: Rule) -> Tensor:
    numbers = rule.policy.numbers
    rows, columns = scores.shape
    uniform = counter_uniform(key, numbers * rows, columns, device=scores.device).to(scores.dtype)
    if numbers > 1:
        uniform = uniform.view(numbers, rows, columns)
    return rule.policy.draw(scores, rule.rho, uniform, out=torch.empty_like(scores))
