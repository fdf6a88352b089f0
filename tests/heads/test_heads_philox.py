"""Random numbers of the heads: known answers, independence, the same numbers everywhere."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

import edgemask as em
from edgemask.heads.philox import philox4x32, stream_of, uniform
from edgemask.heads.steps import new_seed

# Published with the generator (Random123, kat_vectors): counter, key, result.
KNOWN_ANSWERS = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000",
     "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff",
     "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0",
     "d16cfe09 94fdcceb 5001e420 24126ea1"),
]  # fmt: skip
SHAPES = [(10, 256), (100, 512), (1000, 2048)]


def numbers(
    seed: int, step: int, rows: int, columns: int, shape: tuple[int, int] | None = None
) -> torch.Tensor:
    stream = stream_of(*(shape or (rows, columns)), "mask")
    return uniform(torch.tensor(seed), torch.tensor(step), rows, columns, stream)


def largest_z_over_lags(one: torch.Tensor, two: torch.Tensor) -> float:
    """The largest |z| among the correlations of two lines of numbers at all (circular) lags."""
    spectrum = torch.fft.rfft((one - 0.5).double()) * torch.fft.rfft((two - 0.5).double()).conj()
    z = torch.fft.irfft(spectrum, n=len(one)) * 12 / len(one) ** 0.5
    if one is two:
        z = z[1 : len(one) // 2]
    return float(z.abs().max())


def words(text: str) -> list[torch.Tensor]:
    return [torch.tensor(int(word, 16)) for word in text.split()]


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN_ANSWERS)
def test_published_known_answers(counter: str, key: str, expected: str) -> None:
    found = philox4x32(tuple(words(counter)), tuple(words(key)))
    assert " ".join(f"{int(word):08x}" for word in found) == expected


def test_key_counter_and_lane_of_an_edge() -> None:
    seed, step = -(2**40) + 3, 2**33 + 7
    u = numbers(seed, step, 5, 7)
    low, high = torch.tensor(step & 0xFFFFFFFF), torch.tensor(step >> 32)
    key = (torch.tensor(seed & 0xFFFFFFFF), torch.tensor((seed >> 32) & 0xFFFFFFFF))
    stream = torch.tensor(stream_of(5, 7, "mask"))
    for edge in range(35):
        block = philox4x32((torch.tensor(edge // 4), low, high, stream), key)
        expected = ((int(block[edge % 4]) >> 9) + 0.5) / 2**23
        assert float(u.flatten()[edge]) == expected
    assert u.dtype == torch.float32


def test_uniform_by_chi_square_and_in_the_last_bits() -> None:
    for seed, step in [(0, 0), (1, 0), (1, 1), (2**62, 10**6), (-5, 3)]:
        u = numbers(seed, step, 512, 512).flatten()
        assert u.min() > 0
        assert u.max() < 1
        expected = len(u) / 256
        chi = float(((torch.histc(u, 256, 0, 1) - expected) ** 2 / expected).sum())
        # 255 degrees of freedom: mean 255, deviation 22.6; five deviations, p < 1e-6 either way
        assert 142 < chi < 368
        last = (u.double() * 2**23).long() & 1
        assert abs(float(last.double().mean()) - 0.5) < 5 * 0.5 / len(u) ** 0.5


@pytest.mark.parametrize("columns", [256, 512, 2048])
def test_edges_are_independent_at_all_lags(columns: int) -> None:
    for seed in (0, 1, 12345):
        # of 1.3e5 lags the largest |z| exceeds 5.5 with p = 0.005
        assert (
            largest_z_over_lags(*[numbers(seed, 3, 2**18 // columns, columns).flatten()] * 2) < 5.5
        )
    # edges k and k + lag of one row, all lags, pooled over rows
    u = numbers(7, 0, 1000, columns).double() - 0.5
    spectrum = torch.fft.rfft(u, n=2 * columns)
    sums = torch.fft.irfft(spectrum.abs().square().sum(0), n=2 * columns)[1:columns]
    counts = 1000 * (columns - torch.arange(1, columns))
    assert (sums * 12 / counts.sqrt()).abs().max() < 5.5


@pytest.mark.parametrize(
    "other",
    [(1, 1, None), (1, 2, None), (1, 2**32, None), (2, 0, None), (1 + 2**32, 0, None),
     (-1, 0, None), (1, 0, (512, 513)), (1, 0, (256, 1024))],
)  # fmt: skip
def test_steps_seeds_and_shapes_share_nothing_at_any_lag(other: tuple) -> None:
    seed, step, shape = other
    one = numbers(1, 0, 512, 512).flatten()
    two = numbers(seed, step, 512, 512, shape).flatten()
    assert largest_z_over_lags(one, two) < 5.5 + 0.2  # all 2.6e5 lags, both directions


def test_number_of_kept_edges_is_binomial_without_bias() -> None:
    pooled = 0.0
    for (rows, columns), steps in zip(SHAPES, (600, 200, 20), strict=True):
        edges, p = rows * columns, 0.3
        counts = [
            float((numbers(seed, step, rows, columns) <= p).sum())
            for seed in range(20)
            for step in range(steps // 20 or 1)
        ]
        kept = torch.tensor(counts, dtype=torch.float64)
        variance = edges * p * (1 - p)
        ratio = float(((kept - edges * p) ** 2).mean()) / variance
        # a chi-square over its degrees of freedom: four deviations
        assert abs(ratio - 1) < 4 * (2 / len(kept)) ** 0.5
        z = float((kept - edges * p).sum()) / math.sqrt(len(kept) * variance)
        assert abs(z) < 4
        pooled += z / len(SHAPES) ** 0.5
    assert abs(pooled) < 4


def test_one_edge_is_uniform_over_steps() -> None:
    u = torch.stack([numbers(4, step, 4, 16).flatten() for step in range(1000)])
    assert ((u.mean(0) - 0.5).abs() < 5 * (1 / 12 / 1000) ** 0.5).all()
    lagged = [torch.corrcoef(torch.stack([u[:-1, k], u[1:, k]]))[0, 1] for k in range(64)]
    assert torch.stack(lagged).abs().max() < 5 / 1000**0.5
    assert (torch.corrcoef(u.T) - torch.eye(64)).abs().max() < 5.5 / 1000**0.5


def test_heads_of_different_width_and_layers_of_one_seed_share_no_numbers() -> None:
    one, two = em.SEMLinear(64, 10, seed=3), em.SEMLinear(65, 10, seed=3)
    assert not set(one.uniform()[0].tolist()) & set(two.uniform()[0].tolist())
    purposes = [one.uniform(purpose)[0] for purpose in ("mask", "shuffle-coarse", "shuffle-fine")]
    assert not set(purposes[0].tolist()) & set(purposes[1].tolist())
    assert not torch.equal(purposes[1], purposes[2])


def test_zero_initialised_heads_of_one_process_get_seeds_of_their_own() -> None:
    layers = [nn.Linear(6, 4) for _ in range(2)]
    for layer in layers:
        nn.init.zeros_(layer.weight)
    seeds = [int(em.attach(nn.Sequential(layer), "sem")[0].seed) for layer in layers]
    assert seeds[0] != seeds[1]


def test_seeds_follow_torch_s_seed_and_draw_one_number() -> None:
    found = []
    for value in (1, 1, 2):
        torch.manual_seed(value)
        found.append(new_seed())
    assert found[0] == found[1] != found[2]
    torch.manual_seed(3)
    torch.randint(2**63 - 1, ())
    after = torch.get_rng_state()
    model = nn.Sequential(nn.Linear(4, 3))
    torch.manual_seed(3)
    em.attach(model, "sem")
    assert torch.equal(torch.get_rng_state(), after)


def test_a_given_seed_wins_over_that_of_a_checkpoint() -> None:
    trained = em.SEMLinear(6, 4, seed=7)
    trained(torch.randn(5, 6))
    state = trained.state_dict()
    plain = nn.Sequential(nn.Linear(6, 4))
    given = em.attach(plain, "sem", seed=9)[0]
    given.load_state_dict(state)
    assert int(given.seed) == 9
    assert int(given.steps) == 1
    assert torch.equal(given.scores, trained.scores)
    other = em.SEMLinear(6, 4)
    other.load_state_dict(state)
    assert int(other.seed) == 7, "without a given seed a run resumes with the stored one"
