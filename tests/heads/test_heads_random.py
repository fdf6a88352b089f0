"""The counter-based random numbers: uniform, independent, the same everywhere."""

from __future__ import annotations

import pytest
import torch

import edgemask as em
from edgemask.heads.random import counter_uniform, fresh_seed, step_key

ROWS, COLUMNS = 512, 512
COUNT = ROWS * COLUMNS  # one tile


def numbers(
    seed: int, step: int, rows: int = ROWS, columns: int = COLUMNS, first: int = 0
) -> torch.Tensor:
    key = step_key(torch.tensor(seed), torch.tensor(step))
    return counter_uniform(key, rows, columns, first=first)


def flat(seed: int, step: int, rows: int = ROWS, columns: int = COLUMNS) -> torch.Tensor:
    return numbers(seed, step, rows, columns).flatten()


@pytest.mark.parametrize("columns", [COLUMNS, 17, 1 << 18])
@pytest.mark.parametrize(("seed", "step"), [(0, 0), (1, 0), (1, 1), (2**62, 10**6), (-5, 3)])
def test_uniform_by_chi_square(seed: int, step: int, columns: int) -> None:
    u = flat(seed, step, COUNT // columns, columns)
    assert u.dtype == torch.float32
    assert u.min() > 0
    assert u.max() < 1
    cells = 256
    observed = torch.histc(u, cells, 0, 1)
    expected = len(u) / cells
    chi = ((observed - expected) ** 2 / expected).sum().item()
    # 255 degrees of freedom: mean 255, deviation 22.6; five deviations, p < 1e-6 either way
    assert 142 < chi < 368


def test_numbers_are_the_middles_of_fine_cells() -> None:
    cells = flat(3, 0).double() * 2**23
    assert torch.equal(cells, cells.floor() + 0.5)
    # 2^18 draws from 2^23 cells: some 4100 pairs fall together
    assert 3600 < COUNT - cells.unique().numel() < 4600


def test_the_last_bits_are_even() -> None:
    low = (flat(3, 1).double() * 2**23).long() & 1
    assert (low.double().mean() - 0.5).abs() < 5 * 0.5 / COUNT**0.5


@pytest.mark.parametrize("lag", [1, 2, 3, 7, 64, 255, 256, 511, 512, 1000, 2048, 4096, 65536])
def test_edges_are_independent_at_a_distance(lag: int) -> None:
    u = flat(5, 7)
    r = torch.corrcoef(torch.stack([u[:-lag], u[lag:]]))[0, 1]
    assert r.abs() < 5 / COUNT**0.5  # five standard errors


def test_spectrum_is_flat() -> None:
    u = flat(8, 2) - 0.5
    power = torch.fft.rfft(u.double()).abs().square()[1:-1] / (COUNT / 12)
    # exponential with mean 1 under independence: the largest of 131071 exceeds 25 with p < 2e-6
    assert power.max() < 25
    bands = power[: len(power) // 64 * 64].view(64, -1).mean(1)
    assert (bands - 1).abs().max() < 5 / (len(power) // 64) ** 0.5


@pytest.mark.parametrize("other", [(1, 1), (1, 2), (1, 100), (2, 0), (1 + 2**32, 0), (-1, 0)])
def test_steps_and_seeds_are_independent(other: tuple[int, int]) -> None:
    one, two = flat(1, 0), flat(*other)
    assert torch.corrcoef(torch.stack([one, two]))[0, 1].abs() < 5 / COUNT**0.5
    # nor is one a shifted copy of the other: single rows may be, the whole never
    spectrum = torch.fft.rfft((one - 0.5).double()) * torch.fft.rfft((two - 0.5).double()).conj()
    cross = torch.fft.irfft(spectrum) / (COUNT / 12)
    assert cross.abs().max() < 7 / COUNT**0.5


def test_tiles_are_independent() -> None:
    u = numbers(2, 3, 3 * ROWS)
    tiles = u.view(3, COUNT)
    assert not (torch.corrcoef(tiles) - torch.eye(3)).abs().gt(5 / COUNT**0.5).any()


def test_no_two_rows_of_a_step_share_numbers() -> None:
    u = numbers(4, 4, 100, 512)
    repeats = u.numel() - u.unique().numel()
    assert repeats < 300  # 156 by chance among 2^23; one number shared by two rows in turn adds 512


def test_one_edge_is_uniform_over_steps() -> None:
    u = torch.stack([flat(4, step, 4, 16) for step in range(4000)])
    assert ((u.mean(0) - 0.5).abs() < 5 * (1 / 12 / 4000) ** 0.5).all()
    lagged = [torch.corrcoef(torch.stack([u[:-1, k], u[1:, k]]))[0, 1] for k in range(64)]
    assert torch.stack(lagged).abs().max() < 5 / 4000**0.5
    # nor do two edges go together
    others = torch.corrcoef(u.T) - torch.eye(64)
    assert others.abs().max() < 5.5 / 4000**0.5


def test_steps_differ_in_start_and_distance() -> None:
    starts = {float(numbers(0, step, 2, 64)[0, 0]) for step in range(1000)}
    second = {float(numbers(0, step, 2, 64)[1, 0]) for step in range(1000)}
    assert len(starts) > 990
    assert len(second) > 990


@pytest.mark.parametrize(
    ("first", "rows", "columns"),
    [(0, 1, 1), (1, 1, 1), (1, 6, 3), (7, 100, 5000), (50, 4, 5000), (2, 3, 1 << 19), (3, 0, 4)],
)
def test_a_part_is_a_part_of_the_whole(first: int, rows: int, columns: int) -> None:
    whole = numbers(6, 1, first + rows, columns)
    assert torch.equal(numbers(6, 1, rows, columns, first), whole[first:])


@pytest.mark.parametrize("seed", [0, 1, -1, 2**63 - 1, -(2**63), 123456789])
@pytest.mark.parametrize("step", [0, 1, 2**31, 2**62])
def test_same_numbers_on_tensors_as_on_integers(seed: int, step: int) -> None:
    whole = step_key(torch.tensor(seed), torch.tensor(step))
    assert isinstance(whole, int)
    bits = whole & ((1 << 64) - 1)
    on_tensor = torch.tensor(bits - (1 << 64) if bits >> 63 else bits)
    for rows, columns, first in ((9, 11, 5), (70, 5000, 3)):
        assert torch.equal(
            counter_uniform(whole, rows, columns, first=first),
            counter_uniform(on_tensor, rows, columns, first=first),
        )


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
