"""The heart: a linear layer that masks its weak edges while it trains."""

from __future__ import annotations

import re
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgemask.errors import UserError
from edgemask.heads.checks import check_features
from edgemask.heads.criteria import CRITERIA
from edgemask.heads.distributed import mean_over_ranks
from edgemask.heads.functional import masked_linear
from edgemask.heads.masked import masked_linear_in
from edgemask.heads.policies import Policy, parse_policy
from edgemask.heads.scoring import RawScores, Rule, rows_of, score_and_draw
from edgemask.heads.state import SeededHead, to_linear
from edgemask.heads.workspace import Workspace

__all__ = ["EdgeScoring", "SEMLinear"]


class EdgeScoring(SeededHead):
    """Selective Edge Masking, whatever the edges are: scores, their update, and the options.

    :class:`SEMLinear` and :class:`~edgemask.heads.SKANLinear` build on it; the latter's edges are
    functions. A subclass gives raw scores (:meth:`raw_scores`).

    Attributes:
        scores: Smoothed scores in [0, 1], ``(C, d)``, at least float32.
    """

    scores: Tensor

    _state_names = ("scores", "steps", "seed")

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
        self.rho = _check_range("rho", rho, 0.0 <= rho <= 1.0, "[0, 1]")
        self.beta = _check_range("beta", beta, 0.0 <= beta < 1.0, "[0, 1)")
        self.criterion = criterion
        self.policy = parse_policy(policy)
        self.inference = inference
        self.scaling = scaling
        self._mask_space = Workspace()
        self.reset_state(seed=seed)

    def reset_state(self, *, seed: int | None = None) -> None:
        super().reset_state(seed=seed)
        weight = self.edge_weight()
        dtype = torch.promote_types(weight.dtype, torch.float32)
        scores = torch.zeros(weight.shape, dtype=dtype, device=weight.device)
        self.register_buffer("scores", scores)

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
        match = re.fullmatch(r"none|inverted(?:\((\d+(?:\.\d*)?)\))?", value)
        bound = float(match[1]) if match and match[1] else float("inf")
        if match is None or bound < 1.0:
            raise UserError(
                f"scaling must be 'none', 'inverted' or 'inverted(bound)' with bound >= 1, "
                f"got {value!r}"
            )
        self._scaling = value
        self._scaling_bound = bound

    def raw_scores(self, samples: Tensor, squares: Tensor) -> RawScores:
        """Look at a batch, on all ranks, and score its edges (Eq. 13)."""
        raise NotImplementedError

    def draw_mask(self, samples: Tensor, squares: Tensor) -> Tensor:
        raw = self.raw_scores(samples, squares)
        key = self.next_key()
        rule = Rule(self.rho, self.beta, self.policy)
        mask = score_and_draw(raw, self.scores, self.steps, key, rule, self._mask_space)
        if self._scaling == "none":
            return mask
        chance = self.keep_probability()
        return mask / chance.clamp_min(1.0 / self._scaling_bound).where(mask > 0, 1.0)

    @torch.no_grad()
    def keep_probability(self) -> Tensor:
        """Return the probability that a step at the current scores keeps each edge (Eq. S1)."""
        if self.rho == 0.0:
            return torch.ones_like(self.scores)
        chance = self.policy.keep_probability(self.scores, self.rho)
        return chance.where(self.steps > 0, 1.0)

    @property
    def retention(self) -> float:
        """The share of edges kept by the last mask; expected from the scores if there is none."""
        if self.last_mask is None:
            return float(self.keep_probability().mean()) if self.scores.numel() else 1.0
        return float((self.last_mask != 0).to(self.scores.dtype).mean())

    @torch.no_grad()
    def expected_mask(self) -> Tensor:
        """Return the expectation of a mask at the current scores: E of Eq. S1."""
        chance = self.keep_probability()
        if self._scaling != "none":
            chance = chance / chance.clamp_min(1.0 / self._scaling_bound)
        return chance

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        before = self.scores
        result: Self = super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
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


class SEMLinear(EdgeScoring, nn.Linear):
    """A linear layer that, while it trains, keeps weak edges out of forward and backward.

    Each step scores every edge by the root mean square of its activation over the batch (Eq. 13),
    normalises (Eq. 14) and smooths (Eq. 15) the scores, keeps edges that score at least ``rho``,
    samples the others by their score (Eq. 16), and lets only kept edges carry signal and gradient.
    In ``eval()`` it is a plain linear layer.

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
        seed: Seed of the masks. Default: chosen from torch's random state, which does not move.
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

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        rho: float = 0.5,
        beta: float = 0.9,
        criterion: str = "rms",
        policy: str | Policy = "bernoulli",
        inference: str = "dense",
        scaling: str = "none",
        seed: int | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__(in_features, out_features, bias, device=device, dtype=dtype)
        CRITERIA[criterion]
        self._start_scoring(
            rho=rho,
            beta=beta,
            criterion=criterion,
            policy=policy,
            inference=inference,
            scaling=scaling,
            seed=seed,
        )
        self._kept_space = Workspace()

    def raw_scores(self, samples: Tensor, squares: Tensor) -> RawScores:
        rule = CRITERIA[self.criterion]
        weight = self.weight.detach()
        total = rule.statistic(samples, squares, weight, self.bias)
        factor = rule.factor(mean_over_ranks(total, len(samples)))

        if factor.dim() == 2:  # differs between rows, too
            return RawScores(
                lambda rows, out: rule.score(rows_of(weight, rows), rows_of(factor, rows), out),
                factor.new_ones(()),
            )
        return RawScores(lambda rows, out: rule.magnitudes(rows_of(weight, rows), out), factor)

    def forward(self, input: Tensor) -> Tensor:
        """Apply the layer; in training, through the edges that this step keeps."""
        if not self.training and self._inference == "dense":
            try:
                return F.linear(input, self.weight, self.bias)
            except RuntimeError:
                check_features(self, input)  # looked at here only, to predict as fast as plain
                raise
        check_features(self, input)
        # rho = 0 keeps every edge for certain: a plain layer, to the last bit
        mask = self.mask_for(input) if self.training and self.rho > 0.0 else None
        if mask is not None:
            return masked_linear_in(self._kept_space, input, self.weight, mask, self.bias)
        if self._inference == "dense" or self.rho == 0.0:
            return F.linear(input, self.weight, self.bias)
        return masked_linear(input, self.weight, self.expected_mask(), self.bias)

    def to_plain(self) -> nn.Linear:
        """Return the plain layer that predicts as this head does at inference."""
        plain = to_linear(self)
        if self._inference == "expected":
            expected = self.expected_mask().to(self.weight.dtype)
            plain.weight = nn.Parameter(self.weight.detach() * expected)
        return plain

    def extra_repr(self) -> str:
        return f"{nn.Linear.extra_repr(self)}, {self._options_repr()}"


def _check_range(name: str, value: float, inside: bool, interval: str) -> float:
    if not inside:
        raise UserError(f"{name} must lie in {interval}, got {value!r}")
    return float(value)
