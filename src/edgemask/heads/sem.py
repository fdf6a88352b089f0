"""Selective Edge Masking: Algorithm 1 of the paper, and the linear layer that trains by it.

The four functions below are Eqs. 13 to 16, and :meth:`EdgeScoring.next_mask` calls them in this
order, once per step. This is what runs on GPUs and under ``torch.compile``; on CPUs
:mod:`edgemask.heads.native` does the same in one call. No gradient flows through scores and masks,
and no ``(B, C, d)`` tensor is ever built.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Annotated, Any, Literal, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgemask._options import Check, Range, checked
from edgemask.errors import UserError
from edgemask.heads import native
from edgemask.heads.criteria import CRITERIA, Criterion, root, sum_of_squares
from edgemask.heads.policies import EdgewisePolicy, Numbers, Policy, parse_policy
from edgemask.heads.steps import (
    MaskingHead,
    check_features,
    is_distributed,
    mean_over_ranks,
    to_linear,
)

__all__ = [
    "EdgeScoring",
    "SEMLinear",
    "draw_mask",
    "edge_scores",
    "normalise_scores",
    "smooth_scores",
]

SMALLEST = 1e-12
"""Smoothed scores below are set to 0. They would keep no edge: the smallest random number is 6e-8.
But scores that fade without end become denormal numbers, which are slow to compute with."""


@torch.no_grad()
def edge_scores(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    criterion: str | Criterion = "rms",
    mean: Callable[[Tensor, int], Tensor] = torch.div,
) -> Tensor:
    """Score every edge on a batch (Eq. 13): ``sqrt(mean_i (w_jk v_ik)^2)`` for ``"rms"``.

    Args:
        input: Features, ``(..., d)``; all leading dimensions are samples.
        weight: The layer's weights, ``(C, d)``.
        bias: The layer's bias; only ``"obd"``, which needs the logits, uses it.
        criterion: One of :data:`edgemask.heads.CRITERIA`.
        mean: ``(sum over the samples, their number) -> mean``; a head's is over all ranks.

    Example:
        >>> v, w = torch.tensor([[3.0], [4.0]]), torch.tensor([[2.0]])
        >>> float(edge_scores(v, w) ** 2)
        50.0
    """
    if input.shape[-1:] != weight.shape[-1:]:
        shapes = f"{tuple(input.shape)} and {tuple(weight.shape)}"
        raise UserError(f"the input's last dimension must be the weight's: got shapes {shapes}")
    rule = CRITERIA[criterion] if isinstance(criterion, str) else criterion
    weight = weight.to(torch.promote_types(weight.dtype, torch.float32))
    samples = input.reshape(-1, input.shape[-1]).to(weight.dtype)
    statistic = mean(rule.statistic(samples, weight, bias), len(samples))
    return weight.abs() ** rule.power * rule.factor(statistic)


@torch.no_grad()
def normalise_scores(scores: Tensor) -> Tensor:
    """Bring scores to [0, 1] by their smallest and largest (Eq. 14).

    Where all scores are equal, no edge is weaker than another: all get 1. (A zero there would mask
    every edge, for a classifier that starts at zero for ever.) The paper's eps in the denominator
    is for this case; added to it, it would shrink scores that are small as a whole.

    Example:
        >>> normalise_scores(torch.tensor([1.0, 2.0, 3.0])).tolist()
        [0.0, 0.5, 1.0]
        >>> normalise_scores(torch.zeros(2)).tolist()
        [1.0, 1.0]
    """
    if scores.numel() == 0:
        return scores.clone()
    low, high = torch.aminmax(scores)
    return torch.where(high > low, (scores - low) / (high - low), 1.0)


@torch.no_grad()
def smooth_scores(
    previous: Tensor, new: Tensor, beta: float = 0.9, *, first: Tensor | bool = False
) -> Tensor:
    """Smooth normalised scores over time (Eq. 15): ``beta * previous + (1 - beta) * new``.

    The first time there is nothing to smooth, and S(0) is ``new``.
    """
    first = torch.as_tensor(first, device=new.device)
    pace = torch.where(first, new.new_ones(()), 1.0 - beta)
    smoothed = torch.lerp(previous, new, pace)
    return smoothed.where(smoothed >= SMALLEST, 0.0)


@torch.no_grad()
def draw_mask(
    scores: Tensor,
    rho: float = 0.5,
    policy: str | Policy = "bernoulli",
    *,
    numbers: Numbers | None = None,
) -> Tensor:
    """Keep edges that score at least rho, the others with the probability of their score (Eq. 16).

    Args:
        scores: Smoothed scores in [0, 1].
        rho: The retention threshold.
        policy: One of :data:`edgemask.heads.POLICIES`, such as ``"topk(0.3)"``, or an object.
        numbers: ``purpose -> Tensor``, uniform numbers in (0, 1) of the scores' shape that decide.
            Default: torch's generator.

    Example:
        >>> scores, numbers = torch.tensor([0.0, 0.2, 0.6]), torch.tensor([1e-9, 0.3, 0.9])
        >>> draw_mask(scores, numbers=lambda purpose: numbers).tolist()
        [False, False, True]
    """

    def from_torch(purpose: str) -> Tensor:
        return torch.rand_like(scores).clamp_min_(torch.finfo(scores.dtype).tiny)

    return parse_policy(policy).draw(scores, rho, from_torch if numbers is None else numbers)


class EdgeScoring(MaskingHead):
    """Selective Edge Masking, whatever the edges are: scores, their update, and the options.

    :class:`SEMLinear` and :class:`~edgemask.heads.SKANLinear` build on it; the latter's edges are
    functions. A subclass gives raw scores (:meth:`raw_scores`).

    Attributes:
        scores: Smoothed scores in [0, 1], ``(C, d)``, at least float32.
    """

    scores: Tensor

    _state_names = ("scores", "steps", "seed")
    _masks_weight = False  # whether a pass multiplies the edge weight by the mask

    def next_mask(self, samples: Tensor) -> Tensor:
        """Make a step of Algorithm 1.

        A batch whose scores are not finite (or that is empty, so that they are not numbers) leaves
        the scores and the step count as they are; before the first good batch every edge is kept.
        No value is read by the host, so that no device has to be waited for.
        """
        first = self.steps == 0
        raw = self.raw_scores(samples)  # Eq. 13
        usable = raw.isfinite().all()
        new = normalise_scores(raw)  # Eq. 14
        new = new.where(usable, self.scores.masked_fill(first, 1.0))
        scores = smooth_scores(self.scores, new, self.beta, first=first)  # Eq. 15
        mask = draw_mask(scores, self.rho, self.policy, numbers=self.uniform)  # Eq. 16
        self.scores.copy_(scores)
        self.steps.add_(usable)
        return self._scaled(mask, self.rho, self.policy, self._scaling_bound)

    def mask_options(self, steps: Tensor | int) -> tuple[Any, ...]:
        return steps, self.rho, self.policy, self._scaling_bound

    def draw_again(
        self, steps: Tensor | int, rho: float, policy: Policy, bound: float | None
    ) -> Tensor:
        steps = torch.as_tensor(steps, device=self.seed.device)
        state = self.scores, steps, self.seed
        if isinstance(policy, EdgewisePolicy) and native.usable(self.scores, self.scores, state):
            mask = native.draw(state, self._streams["mask"], policy.thresholds(rho))
        else:
            numbers = functools.partial(self.uniform, steps=steps)
            mask = draw_mask(self.scores, rho, policy, numbers=numbers)
        return self._scaled(mask, rho, policy, bound)

    def _start_scoring(
        self,
        *,
        rho: float,
        beta: float,
        criterion: str,
        policy: str | Policy,
        inference: str,
        scaling: str,
        seed: int | None,
    ) -> None:
        self.rho = rho
        self.beta = beta
        self.criterion = criterion
        self.policy = parse_policy(policy)
        self.inference = inference
        self.scaling = scaling
        self.reset_state(seed=seed)

    def raw_scores(self, samples: Tensor) -> Tensor:
        """Score the edges on a batch, over all ranks (Eq. 13); ``(C, d)``, at least float32."""
        raise NotImplementedError

    def magnitudes(self, samples: Tensor, weight: Tensor) -> native.Magnitudes:
        """Return what the raw scores come from, for the native path."""
        return native.Magnitudes(self.raw_scores(samples))

    def _new_mask(self, input: Tensor) -> tuple[Tensor, Tensor, tuple[Any, ...] | None]:
        policy, weight, buffers = self.policy, self.edge_weight(), self._buffers
        state: Any = buffers["scores"], buffers["steps"], buffers["seed"]  # attributes are slower
        possible = native.enabled and input.is_cpu
        if not (
            possible and isinstance(policy, EdgewisePolicy) and native.usable(input, weight, state)
        ):
            return super()._new_mask(input)
        samples = input if input.dim() == 2 else input.reshape(-1, input.shape[-1])
        options = self.mask_options(state[1].item())
        mask, self.step_state.kept, squares = native.step(
            samples,
            self.magnitudes(samples, weight),
            weight if self._masks_weight and self._scaling_bound is None else None,
            state,
            self._streams["mask"],
            self.beta,
            policy.thresholds(self.rho),
        )
        return self._scaled(mask, self.rho, policy, self._scaling_bound), squares, options

    def _scaled(self, mask: Tensor, rho: float, policy: Policy, bound: float | None) -> Tensor:
        """Divide kept edges by their keep probability where there is a bound on the factor."""
        if bound is None:
            return mask
        chance = self._keep_probability(rho, policy).clamp_min(1.0 / bound)
        return mask / chance.where(mask, 1.0)

    def reset_state(self, *, seed: int | None = None) -> None:
        super().reset_state(seed=seed)
        weight = self.edge_weight()
        dtype = torch.promote_types(weight.dtype, torch.float32)
        scores = torch.zeros(weight.shape, dtype=dtype, device=weight.device)
        self.register_buffer("scores", scores)

    @property
    def criterion(self) -> str:
        """What makes an edge important: a name of :data:`edgemask.heads.CRITERIA`."""
        return self._criterion

    @criterion.setter
    def criterion(self, name: str) -> None:
        self._criterion, self._rule = CRITERIA.name_of(name), CRITERIA[name]

    @property
    def inference(self) -> str:
        """``"dense"``, or ``"expected"``: weights times keep probability (Eq. S1)."""
        return self._inference

    @inference.setter
    def inference(self, value: str) -> None:
        if value not in ("dense", "expected"):
            raise UserError(f"inference must be 'dense' or 'expected', got {value!r}")
        self._inference = value

    @property
    def scaling(self) -> str:
        """``"none"``, or ``"inverted"``: kept edges are divided by their keep probability.

        ``"inverted(10)"`` bounds the factor; without a bound training may diverge.
        """
        return self._scaling

    @scaling.setter
    def scaling(self, value: str) -> None:
        self._scaling_bound = scaling_bound(value)
        self._scaling = value

    @torch.no_grad()
    def keep_probability(self) -> Tensor:
        """Return the probability that a step at the current scores keeps each edge (Eq. S1)."""
        return self._keep_probability(self.rho, self.policy)

    def _keep_probability(self, rho: float, policy: Policy) -> Tensor:
        if policy.keeps_all(rho):
            return torch.ones_like(self.scores)
        return policy.keep_probability(self.scores, rho).where(self.steps > 0, 1.0)

    def expected_retention(self) -> float:
        return float(self.keep_probability().mean()) if self.scores.numel() else 1.0

    @torch.no_grad()
    def expected_mask(self) -> Tensor:
        """Return the expectation of a mask at the current scores: E of Eq. S1."""
        chance = self.keep_probability()
        if self._scaling_bound is not None:
            chance = chance / chance.clamp_min(1.0 / self._scaling_bound)
        return chance

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        before = self.scores
        result: Self = super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if (self.scores.dtype, self.scores.device) != (before.dtype, before.device):
            self.step_state.drawn_with = None  # rounded scores may give another mask
        if self.scores.dtype in (torch.float16, torch.bfloat16):
            self.scores = before.to(self.scores.device, torch.float32)
        return result

    def _options_repr(self) -> str:
        text = f"rho={self.rho}, beta={self.beta}, criterion={self.criterion!r}"
        text += f", policy={self.policy!r}"
        if self._inference != "dense":
            text += f", inference={self._inference!r}"
        if self._scaling != "none":
            text += f", scaling={self._scaling!r}"
        return text


def scaling_bound(scaling: str) -> float | None:
    """Return the bound on the factor that ``"inverted(bound)"`` states; infinite without one.

    None for ``"none"``: there is no factor.
    """
    if scaling == "none":
        return None
    match = re.fullmatch(r"inverted(?:\((\d+(?:\.\d*)?)\))?", scaling)
    bound = float(match[1]) if match and match[1] else float("inf")
    if match is None or bound < 1.0:
        raise UserError(
            f"scaling must be 'none', 'inverted' or 'inverted(bound)' with bound >= 1, "
            f"got {scaling!r}"
        )
    return bound


class SEMLinear(EdgeScoring, nn.Linear):
    """A linear layer that, while it trains, keeps weak edges out of forward and backward.

    ``z = (M * W) v + b``. Each step scores every edge by the root mean square of its activation
    over the batch (Eq. 13), normalises (Eq. 14) and smooths (Eq. 15) the scores, keeps edges that
    score at least ``rho``, samples the others by their score (Eq. 16), and lets only kept edges
    carry signal and gradient. In ``eval()`` it is a plain linear layer.

    It is an :class:`torch.nn.Linear`: same parameters, same initialisation, and the checkpoint of a
    plain layer loads with ``strict=True``. Which passes count as a step, and what happens when one
    step makes several, is in :mod:`edgemask.heads.steps`.

    Args:
        in_features: Size of each input sample.
        out_features: Number of classes.
        bias: Whether to learn an additive bias; it is never masked.
        rho: Retention threshold in [0, 1]. ``0`` is a plain linear layer, exactly.
        beta: Momentum of the scores in [0, 1). ``0`` uses each batch's own scores.
        criterion: What makes an edge important; one of :data:`edgemask.heads.CRITERIA`.
        policy: How the mask is drawn; one of :data:`edgemask.heads.POLICIES`.
        inference: ``"dense"`` or ``"expected"`` (Eq. S1); free to change after training.
        scaling: ``"none"`` (the paper) or ``"inverted"``, kept edges divided by their keep
            probability, with an optional bound on the factor: ``"inverted(10)"``.
        seed: Seed of the masks. Default: one number of torch's generator.
        device: Device of the parameters.
        dtype: Type of the parameters.

    Shape:
        ``(*, in_features) -> (*, out_features)``; statistics run over all leading dimensions.

    Reference:
        Label-Noise Resistant Learning via Optimal Brain Damage Masking, Algorithm 1.

    Example:
        >>> head = SEMLinear(256, 10)
        >>> logits = head(torch.randn(128, 256))   # one step: scores, draws, masks
        >>> 0.0 < head.retention < 1.0, int(head.steps)
        (True, 1)
    """

    @checked
    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        rho: Annotated[float, Range(0, 1)] = 0.5,
        beta: Annotated[float, Range(0, below=1)] = 0.9,
        criterion: Annotated[str, Check(CRITERIA.name_of)] = "rms",
        policy: Annotated[str | Policy, Check(parse_policy)] = "bernoulli",
        inference: Literal["dense", "expected"] = "dense",
        scaling: Annotated[str, Check(scaling_bound)] = "none",
        seed: int | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__(in_features, out_features, bias, device=device, dtype=dtype)
        self._start_scoring(
            rho=rho,
            beta=beta,
            criterion=criterion,
            policy=policy,
            inference=inference,
            scaling=scaling,
            seed=seed,
        )

    _masks_weight = True

    def magnitudes(self, samples: Tensor, weight: Tensor) -> native.Magnitudes:
        rule = self._rule
        if rule.statistic is sum_of_squares and not is_distributed():
            return native.Magnitudes(weight, rule.power, None, rule.factor is root)
        weight, samples = weight.detach(), samples.detach()
        total = rule.statistic(samples, weight, self.bias)
        factor = rule.factor(mean_over_ranks(total, len(samples))).detach()
        if factor.dim() == 1:
            return native.Magnitudes(weight, rule.power, factor)
        return native.Magnitudes(weight.abs() ** rule.power * factor)

    def raw_scores(self, samples: Tensor) -> Tensor:
        return edge_scores(
            samples, self.weight, self.bias, criterion=self._rule, mean=mean_over_ranks
        )

    def forward(self, input: Tensor) -> Tensor:
        """Apply the layer; in training, through the edges that this step keeps."""
        if not self.training and self._inference == "dense":
            try:
                return F.linear(input, self.weight, self.bias)
            except RuntimeError:
                check_features(self, input)  # only here: predictions are as fast as plain ones
                raise
        check_features(self, input)
        dense = self.policy.keeps_all(self.rho)  # a plain layer, to the last bit
        mask = None if dense else self.mask_for(input)
        if mask is None and not dense and self._inference == "expected":
            mask = self.expected_mask()
        if mask is None:
            return F.linear(input, self.weight, self.bias)
        weight, kept = self.weight, self.step_state.take_kept()
        if kept is not None:
            return native.masked_linear(input, weight, self.bias, mask, kept)
        possible = native.enabled and input.is_cpu and mask.dtype is torch.bool
        if possible and mask.shape == weight.shape and native.usable(input, weight):
            return native.masked_linear(input, weight, self.bias, mask)
        return F.linear(input, weight * mask.to(weight.dtype), self.bias)

    def to_plain(self) -> nn.Linear:
        """Return the plain layer that predicts as this head does at inference."""
        plain = to_linear(self)
        if self._inference == "expected":
            expected = self.expected_mask().to(self.weight.dtype)
            plain.weight = nn.Parameter(self.weight.detach() * expected)
        return plain

    def extra_repr(self) -> str:
        return f"{nn.Linear.extra_repr(self)}, {self._options_repr()}"
