"""The propositions as properties."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from edgemask.heads.theory import (
    gradient_error_bound,
    obd_bound,
    obd_estimate,
    over_masked_edges,
)

sizes = st.tuples(st.integers(1, 9), st.integers(2, 6), st.integers(1, 7))
scales = st.sampled_from([1e-3, 0.1, 1.0, 10.0, 100.0])


def batch(seed: int, size: tuple[int, int, int], scale: float) -> tuple[torch.Tensor, ...]:
    g = torch.Generator().manual_seed(seed)
    b, c, d = size
    v, w, bias = (
        torch.randn(shape, generator=g, dtype=torch.float64) for shape in ((b, d), (c, d), (c,))
    )
    mask = (torch.rand(c, d, generator=g) > 0.5).double()
    return v * scale, w, bias, mask


@given(st.integers(0, 10**6), sizes, scales)
def test_proposition_1(seed: int, size: tuple[int, int, int], scale: float) -> None:
    v, w, bias, mask = batch(seed, size, scale)
    estimate, bound = obd_estimate(v, w, bias), obd_bound(v, w)
    assert (estimate <= bound * (1 + 1e-12)).all()
    assert (estimate >= 0).all()
    assert over_masked_edges(estimate, mask) <= over_masked_edges(bound, mask) * (1 + 1e-12)
    omega = (v.unsqueeze(1) * w).square().mean(0)
    torch.testing.assert_close(bound, omega / 8)
    torch.testing.assert_close(over_masked_edges(bound, mask), (omega / 8 * (1 - mask)).sum())


def test_proposition_1_is_tight_for_two_even_classes() -> None:
    v, w = torch.randn(5, 3, dtype=torch.float64), torch.randn(1, 3, dtype=torch.float64)
    w = torch.cat([w, w])  # the same logits: p = 1/2 for both
    torch.testing.assert_close(obd_estimate(v, w), obd_bound(v, w))


@given(st.integers(0, 10**6), sizes, scales, st.booleans())
def test_proposition_2(seed: int, size: tuple[int, int, int], scale: float, noisy: bool) -> None:
    v, w, _, mask = batch(seed, size, scale)
    g = torch.Generator().manual_seed(seed)
    clean = torch.randint(size[1], (size[0],), generator=g)
    given_labels = (clean + 1) % size[1] if noisy else clean
    errors = (F.one_hot(clean, size[1]) - F.one_hot(given_labels, size[1])).double()
    norms = v.norm(dim=1) + 0.1
    dense = gradient_error_bound(errors, norms, w)
    masked = gradient_error_bound(errors, norms, w, mask)
    assert masked <= dense
    if noisy and (w[mask == 0] != 0).any():
        assert masked < dense
    if not noisy:
        assert dense == masked == 0
    one = torch.ones_like(mask)
    assert gradient_error_bound(errors, norms, w, one) == dense


def test_proposition_2_says_nothing_about_scaled_masks() -> None:
    """Kept edges divided by their keep probability: the bound with the mask may be larger."""
    import edgemask as em

    torch.manual_seed(0)
    head = em.SEMLinear(64, 10, scaling="inverted", beta=0.0)
    head(torch.randn(32, 64))
    errors, norms = torch.tensor([[1.0, -1.0] + [0.0] * 8]), torch.ones(1)
    weight, mask = head.weight.detach(), head.last_mask
    dense = gradient_error_bound(errors, norms, weight)
    assert mask.max() > 1
    assert gradient_error_bound(errors, norms, weight, mask) > dense
    assert gradient_error_bound(errors, norms, weight, (mask != 0).float()) < dense
    says = " ".join(gradient_error_bound.__doc__.split())
    assert "With a mask of zeros and ones it is never larger" in says


def test_the_bound_holds_for_real_gradients() -> None:
    """D_f <= U on a backbone whose Jacobian is known: v = x A, theta = A."""
    g = torch.Generator().manual_seed(0)
    x, w = torch.randn(6, 4, generator=g).double(), torch.randn(3, 5, generator=g).double()
    mask = (torch.rand(3, 5, generator=g) > 0.4).double()
    clean, noisy = torch.tensor([0, 1, 2, 0, 1, 2]), torch.tensor([0, 2, 2, 1, 1, 0])
    for m in (torch.ones_like(mask), mask):
        grads = []
        for labels in (clean, noisy):
            a = torch.randn(4, 5, generator=torch.Generator().manual_seed(1)).double()
            a.requires_grad_()
            F.cross_entropy((x @ a) @ (w * m).T, labels).backward()
            grads.append(a.grad)
        errors = (F.one_hot(clean, 3) - F.one_hot(noisy, 3)).double()
        bound = gradient_error_bound(errors, x.norm(dim=1), w, m)  # |dv_i/dA|_2 = |x_i|
        assert 0 < (grads[0] - grads[1]).norm() <= bound
