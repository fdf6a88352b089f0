"""One step of scoring and drawing: normalise, smooth, draw, in as few trips to memory as it takes.

What is computed is Eqs. 14-16 as :mod:`edgemask.heads.functional` states them. On a CPU, where
every operation on a large matrix is a trip to main memory and every fresh one a page fault, the
edges are worked through in blocks that stay in the cache, and the memory of a mask that nobody
looks at any more is used again. Elsewhere, and under ``torch.compile``, which fuses by itself,
whole tensors are used. Both give the same mask.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from edgemask.heads.functional import EPS, normalise_scores
from edgemask.heads.policies import Policy
from edgemask.heads.random import StepKey, counter_uniform
from edgemask.heads.workspace import Workspace

__all__ = ["Fill", "Rule", "score_and_draw"]

_BLOCK = 1 << 16  # edges; the few blocks of float32 in use at a time fit into a level-2 cache

Fill = Callable[[slice, Tensor], Tensor]
"""``(rows, out) -> out``: writes the raw scores of some rows of edges."""


class Rule(NamedTuple):
    """The options that a step needs."""

    rho: float
    beta: float
    policy: Policy


def score_and_draw(
    fill: Fill, scores: Tensor, steps: Tensor, key: StepKey, rule: Rule, workspace: Workspace
) -> Tensor:
    """Update the smoothed scores with a batch's raw ones and draw the step's mask.

    A batch whose scores are not finite (or that is empty, so that they are not numbers) leaves the
    scores and the step count as they are; before the first good batch every edge is kept.

    Args:
        fill: Gives the raw scores.
        scores: Smoothed scores, ``(C, d)``; updated in place.
        steps: The number of steps so far; updated in place.
        key: What the mask's random numbers come from.
        rule: rho, beta and the policy.
        workspace: Where masks live.
    """
    if scores.numel() == 0:
        return torch.zeros_like(scores)
    if scores.device.type != "cpu" or torch.compiler.is_compiling():
        _smooth(fill(slice(None), torch.empty_like(scores)), scores, steps, rule.beta)
        return _draw(scores, key, rule)
    return _score_and_draw_in_blocks(fill, scores, steps, key, rule, workspace)


def _score_and_draw_in_blocks(
    fill: Fill, scores: Tensor, steps: Tensor, key: StepKey, rule: Rule, workspace: Workspace
) -> Tensor:
    rows, columns = scores.shape
    height = min(rows, max(1, _BLOCK // columns))
    mask = workspace.take(scores)
    scratch = torch.empty(height, columns, dtype=scores.dtype)
    one_block = height == rows
    # the views of each block: which rows, their scores, their mask, and memory for raw scores
    blocks = (
        [(slice(None), scores, mask, scratch)]
        if one_block
        else list(
            zip(
                [slice(top, top + height) for top in range(0, rows, height)],
                scores.split(height),
                mask.split(height),
                [scratch[: min(height, rows - top)] for top in range(0, rows, height)],
                strict=True,
            )
        )
    )

    bounds = [torch.aminmax(fill(block, new)) for block, _, _, new in blocks]
    lows, highs = [b.min.item() for b in bounds], [b.max.item() for b in bounds]
    usable = math.isfinite(sum(lows) + sum(highs))
    low, span = min(lows), max(highs) - min(lows)
    first = steps.item() == 0
    if not usable and first:
        scores.fill_(1.0)
    steps += usable

    for number, (block, smooth, kept, new) in enumerate(blocks):
        if usable:
            if not one_block:
                fill(block, new)
            if span > 0.0:
                new.sub_(low).mul_(1.0 / (span + EPS))
            else:
                new.fill_(1.0)
            smooth.lerp_(new, 1.0 if first else 1.0 - rule.beta)
        if rule.policy.edgewise:
            uniform = counter_uniform(key, smooth.numel(), start=number * height * columns)
            rule.policy.draw(smooth, rule.rho, uniform.view(smooth.shape), out=kept)
    if not rule.policy.edgewise:
        mask.copy_(_draw(scores, key, rule))
    return mask


def _smooth(raw: Tensor, scores: Tensor, steps: Tensor, beta: float) -> None:
    """Eqs. 14 and 15 without a branch on a value, so that no device has to wait for another."""
    new = normalise_scores(raw)
    usable = torch.isfinite(raw.amax() - raw.amin())
    pace = torch.where(steps == 0, 1.0, torch.where(usable, 1.0 - beta, 0.0)).to(scores.dtype)
    scores.lerp_(torch.where(usable, new, 1.0), pace)
    steps += usable


def _draw(scores: Tensor, key: StepKey, rule: Rule) -> Tensor:
    numbers = rule.policy.numbers
    shape = scores.shape if numbers == 1 else (numbers, *scores.shape)
    uniform = counter_uniform(key, numbers * scores.numel(), device=scores.device)
    out = torch.empty_like(scores)
    return rule.policy.draw(scores, rule.rho, uniform.to(scores.dtype).view(shape), out=out)
