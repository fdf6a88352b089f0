"""SKAN: Selective Edge Masking for a Kolmogorov-Arnold layer, whose edges are functions."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from edgemask._options import Check, Range, checked
from edgemask.heads import native
from edgemask.heads.kan import KANLinear
from edgemask.heads.policies import Policy, parse_policy
from edgemask.heads.sem import EdgeScoring, scaling_bound
from edgemask.heads.steps import check_features, mean_over_ranks

__all__ = ["SKANLinear", "basis_gram", "function_moments"]


@torch.no_grad()
def basis_gram(base: Tensor, splines: Tensor) -> Tensor:
    """Sum the products of all pairs of basis functions over the samples, feature by feature.

    Args:
        base: The base function's values.
        splines: The splines' values.

    Shape:
        ``(d, N), (d, M - 1, N) -> (d, M, M)``
    """
    gram = splines.new_empty(len(base), splines.shape[1] + 1, splines.shape[1] + 1)
    gram[:, 0, 0] = base.square().sum(dim=1)
    gram[:, 1:, 0] = gram[:, 0, 1:] = torch.bmm(splines, base.unsqueeze(-1)).squeeze(-1)
    gram[:, 1:, 1:] = torch.bmm(splines, splines.transpose(1, 2))
    return gram


@torch.no_grad()
def function_moments(gram: Tensor, base: Tensor, scaler: Tensor, splines: Tensor) -> Tensor:
    """Return the second moment of every edge function from its feature's Gram matrix.

    An edge is a combination of M basis functions of one feature, ``phi_jk(v) = c_jk . b(v_k)`` with
    ``c = (base, scaler * splines)``, so ``mean_i phi_jk(v_ik)^2 = c_jk^T G_k c_jk``, where
    ``G_k = mean_i b(v_ik) b(v_ik)^T``: the ``(B, C, d)`` tensor of edge outputs is not needed.

    Args:
        gram: The Gram matrices, means over the samples.
        base: Coefficients of the base function.
        scaler: What multiplies the spline coefficients.
        splines: The spline coefficients.

    Shape:
        ``(d, M, M), (C, d), (C, d), (C, d, M - 1) -> (C, d)``
    """
    c = splines.transpose(0, 1)
    # one product for c^T G and for the mixed terms: the Gram matrix without its first row
    products = torch.bmm(c, gram[:, 1:].contiguous())
    # a product with ones sums such short rows faster than a sum does
    square = (products[..., 1:].mul_(c) @ c.new_ones(c.shape[-1])).T.contiguous()
    mixed = products[..., 0].T.contiguous()
    moments = square.mul_(scaler).addcmul_(base, mixed, value=2.0).mul_(scaler)
    return moments.addcmul_(base.square(), gram[:, 0, 0].contiguous()).clamp_min_(0.0)


class SKANLinear(EdgeScoring, KANLinear):
    """A KAN layer that, while it trains, keeps its weak edges out of forward and backward.

    ``z_j = sum_k M_jk phi_jk(v_k)``. Scores, smoothing and the mask M are those of
    :class:`~edgemask.heads.SEMLinear` (Eqs. 13-16) on the contributions ``a_ijk = phi_jk(v_ik)``; a
    masked edge loses base and spline together. In ``eval()`` it is the plain KAN layer. Parameter
    magnitudes say nothing about a KAN edge (the base function nearly lies in the span of the
    splines), so the criteria are ``"rms"`` and ``"second_moment"``, which use its values.

    Args:
        in_features: Size of each input sample.
        out_features: Number of classes.
        bias: Accepted so that the signature is that of a linear layer; a KAN layer has no bias.
        grid_size: Number of intervals of the grid.
        spline_order: Order of the splines; 3 is cubic.
        grid_range: The interval that the grid covers.
        normalise: ``"none"``, ``"batch"`` or ``"layer"``, as for :class:`KANLinear`.
        noise: Size of the random functions that the splines start as.
        rho: Retention threshold in [0, 1].
        beta: Momentum of the scores in [0, 1).
        criterion: ``"rms"`` or ``"second_moment"``.
        policy: How the mask is drawn; one of :data:`edgemask.heads.POLICIES`.
        inference: ``"dense"`` or ``"expected"`` (Eq. S1).
        scaling: ``"none"`` or ``"inverted"``, as for :class:`~edgemask.heads.SEMLinear`.
        seed: Seed of the masks. Default: one number of torch's generator.
        device: Device of the parameters.
        dtype: Type of the parameters.

    Reference:
        Label-Noise Resistant Learning via Optimal Brain Damage Masking; the layer: Liu et al., KAN:
        Kolmogorov-Arnold Networks, 2024.
    """

    @checked
    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        grid_size: Annotated[int, Range(1)] = 5,
        spline_order: Annotated[int, Range(1)] = 3,
        grid_range: tuple[float, float] = (-1.0, 1.0),
        normalise: Literal["none", "batch", "layer"] = "none",
        noise: float = 0.1,
        rho: Annotated[float, Range(0, 1)] = 0.5,
        beta: Annotated[float, Range(0, below=1)] = 0.9,
        criterion: Literal["rms", "second_moment"] = "rms",
        policy: Annotated[str | Policy, Check(parse_policy)] = "bernoulli",
        inference: Literal["dense", "expected"] = "dense",
        scaling: Annotated[str, Check(scaling_bound)] = "none",
        seed: int | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__(
            in_features,
            out_features,
            bias,
            grid_size=grid_size,
            spline_order=spline_order,
            grid_range=grid_range,
            normalise=normalise,
            noise=noise,
            device=device,
            dtype=dtype,
        )
        # what the basis functions are on the batch that is about to be scored
        self._functions: tuple[Tensor, Tensor] | None = None
        self._start_scoring(
            rho=rho,
            beta=beta,
            criterion=criterion,
            policy=policy,
            inference=inference,
            scaling=scaling,
            seed=seed,
        )

    def edge_weight(self) -> Tensor:
        return self.base_weight

    def raw_scores(self, samples: Tensor) -> Tensor:
        assert self._functions is not None
        base, splines = self._functions
        coefficients = (self.base_weight, self.spline_scaler, self.spline_weight)
        if native.usable(base, splines):
            gram_of, moments_of = native.basis_gram, native.function_moments
        else:
            gram_of, moments_of = basis_gram, function_moments
        with torch.autocast(samples.device.type, enabled=False):
            total = gram_of(base.to(samples.dtype), splines.to(samples.dtype))
            raw = moments_of(
                mean_over_ranks(total, len(samples)),
                *(parameter.detach().to(samples.dtype) for parameter in coefficients),
            )
        return raw.sqrt_() if self.criterion == "rms" else raw

    def forward(self, input: Tensor) -> Tensor:
        """Apply the layer; in training, through the edges that this step keeps."""
        check_features(self, input)
        samples = input.reshape(-1, self.in_features)
        base, splines = self.basis(samples)
        if not self.policy.keeps_all(self.rho) and self.is_step():
            self._functions = (base.detach(), splines.detach())
            try:
                mask = self.mask_for(samples)
            finally:
                self._functions = None
        else:
            mask = self.expected_mask() if self.inference == "expected" else None
        logits = self.combine(base, splines, mask)
        return logits.view(*input.shape[:-1], self.out_features)

    def to_plain(self) -> nn.Module:
        """Return the plain KAN layer that predicts as this head does at inference."""
        plain = KANLinear(
            self.in_features,
            self.out_features,
            grid_size=self.grid_size,
            spline_order=self.spline_order,
            grid_range=self.grid_range,
            normalise=self.normalise,
            noise=self.noise,
            device="meta",
        )
        plain.norm = self.norm
        plain.base_weight = self.base_weight
        plain.spline_scaler = self.spline_scaler
        plain.spline_weight = self.spline_weight
        if self.inference == "expected":
            expected = self.expected_mask().to(self.base_weight.dtype)
            plain.base_weight = nn.Parameter(self.base_weight.detach() * expected)
            plain.spline_scaler = nn.Parameter(self.spline_scaler.detach() * expected)
        return plain.train(self.training)

    def extra_repr(self) -> str:
        return f"{KANLinear.extra_repr(self)}, {self._options_repr()}"
