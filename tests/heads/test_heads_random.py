"""The counter-based random numbers: uniform, independent, the same everywhere."""

from __future__ import annotations

import pytest
import torch

import edgemask as em
from edgemask.heads.random import _mix, counter_uniform, fresh_seed, step_key

COUNT = 1 << 18


def numbers(seed: int, step: int, count: int = COUNT, start: int = 0) -> torch.Tensor:
    return counter_uniform(step_key(torch.tensor(seed), torch.tensor(step)), count, start=start)


@pytest.mark.parametrize(("seed", "step"), [(0, 0), (1, 0), (1, 1), (2**62, 10**6), (-5, 3)])
def test_uniform_by_chi_square(seed: int, step: int) -> None:
    u = numbers(seed, step)
    assert u.dtype == torch.float32
    assert u.min() > 0
    assert u.max() < 1
    cells = 256
    observed = torch.histc(u, cells, 0, 1)
    expected = COUNT / cells
    chi = ((observed - expected) ** 2 / expected).sum().item()
    # 255 degrees of freedom: mean 255, deviation 22.6; five deviations, p < 1e-6 either way
    assert 142 < chi < 368


def test_every_cell_of_sixteen_bits_is_reached() -> None:
    u = numbers(3, 0, 1 << 21)
    cells = (u.double() * 65536).long()
    assert torch.equal(u.double(), (cells + 0.5) / 65536)
    assert cells.unique().numel() > 65000  # 32 numbers a cell on average


def test_even_and_odd_positions_both_uniform_and_unrelated() -> None:
    u = numbers(9, 4)
    even, odd = u[::2], u[1::2]
    for half in (even, odd):
        assert (half.mean() - 0.5).abs() < 5 * (1 / 12 / len(half)) ** 0.5
    assert torch.corrcoef(torch.stack([even, odd]))[0, 1].abs() < 5 / len(even) ** 0.5


@pytest.mark.parametrize("lag", [1, 2, 3, 7, 64, 255, 256, 1000, 2048, 4096, 65536])
def test_edges_are_independent_at_a_distance(lag: int) -> None:
    u = numbers(5, 7)
    r = torch.corrcoef(torch.stack([u[:-lag], u[lag:]]))[0, 1]
    assert r.abs() < 5 / COUNT**0.5  # five standard errors


def test_spectrum_is_flat() -> None:
    u = numbers(8, 2) - 0.5
    power = torch.fft.rfft(u.double()).abs().square()[1:-1] / (COUNT / 12)
    # exponential with mean 1 under independence: the largest of 131071 exceeds 25 with p < 2e-6
    assert power.max() < 25
    bands = power[: len(power) // 64 * 64].view(64, -1).mean(1)
    assert (bands - 1).abs().max() < 5 / (len(power) // 64) ** 0.5


@pytest.mark.parametrize("other", [(1, 1), (1, 2), (1, 100), (2, 0), (1 + 2**32, 0), (-1, 0)])
def test_steps_and_seeds_are_independent(other: tuple[int, int]) -> None:
    one, two = numbers(1, 0), numbers(*other)
    assert torch.corrcoef(torch.stack([one, two]))[0, 1].abs() < 5 / COUNT**0.5
    # nor is one a shifted copy of the other
    spectrum = torch.fft.rfft((one - 0.5).double()) * torch.fft.rfft((two - 0.5).double()).conj()
    cross = torch.fft.irfft(spectrum) / (COUNT / 12)
    assert cross.abs().max() < 7 / COUNT**0.5


def test_one_edge_is_uniform_over_steps() -> None:
    u = torch.stack([numbers(4, step, 64) for step in range(4000)])
    assert ((u.mean(0) - 0.5).abs() < 5 * (1 / 12 / 4000) ** 0.5).all()
    lagged = [torch.corrcoef(torch.stack([u[:-1, k], u[1:, k]]))[0, 1] for k in range(64)]
    assert torch.stack(lagged).abs().max() < 5 / 4000**0.5


@pytest.mark.parametrize(("start", "count"), [(0, 1), (1, 1), (1, 6), (2, 5), (7, 100), (4096, 33)])
def test_a_part_is_a_part_of_the_whole(start: int, count: int) -> None:
    assert torch.equal(numbers(6, 1, count, start), numbers(6, 1, start + count)[start:])


@pytest.mark.parametrize("seed", [0, 1, -1, 2**63 - 1, -(2**63), 123456789])
@pytest.mark.parametrize("step", [0, 1, 2**31, 2**62])
def test_same_numbers_on_tensors_as_on_integers(seed: int, step: int) -> None:
    bits = (1 << 64) - 1
    whole = _mix(seed, step, bits)
    on_tensor = int(_mix(torch.tensor(seed), torch.tensor(step), -1)) & bits
    assert whole == on_tensor
    key = step_key(torch.tensor(seed), torch.tensor(step))
    mixed = _mix(torch.tensor(seed), torch.tensor(step), -1)
    tensors = ((mixed | 1).to(torch.int32), (mixed >> 32).to(torch.int32))
    assert torch.equal(counter_uniform(key, 99, start=5), counter_uniform(tensors, 99, start=5))


def test_drawing_moves_no_random_state() -> None:
    before = torch.get_rng_state()
    fresh_seed(torch.randn(0, 3))
    head = em.SEMLinear(4, 3, device="meta")
    assert head.seed.device.type == "meta"
    numbers(1, 1)
    assert torch.equal(torch.get_rng_state(), before)


def test_seeds_follow_torch_s_seed_and_the_weights() -> None:
    def seed(value: int, weight: torch.Tensor) -> int:
        torch.manual_seed(value)
        return fresh_seed(weight)

    one, two = torch.ones(2, 3), torch.full((2, 3), 2.5)
    assert seed(1, one) == seed(1, one)
    assert len({seed(1, one), seed(2, one), seed(1, two)}) == 3
    assert seed(1, one) >= 0


def test_blocks_draw_as_the_whole_does(monkeypatch: pytest.MonkeyPatch) -> None:
    from edgemask.heads import scoring

    masks = []
    for block in (1 << 16, 100, 7):
        monkeypatch.setattr(scoring, "_BLOCK", block)
        torch.manual_seed(2)
        head = em.SEMLinear(13, 11, seed=5)
        for _ in range(3):
            head(torch.randn(6, 13))
        masks.append((head.last_mask.clone(), head.scores.clone()))
    for mask, scores in masks[1:]:
        assert torch.equal(mask, masks[0][0])
        torch.testing.assert_close(scores, masks[0][1], rtol=1e-6, atol=1e-7)
