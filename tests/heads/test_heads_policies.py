"""Which edges a policy keeps: probabilities, counts, and what never happens."""

from __future__ import annotations

import math

import pytest
import torch

from edgemask.errors import UserError
from edgemask.heads import POLICIES, SEMLinear
from edgemask.heads.functional import edge_mask, keep_probability
from edgemask.heads.policies import parse_policy

SCORES = torch.tensor([[0.0, 0.05, 0.2], [0.4999, 0.5, 0.7], [0.3, 0.95, 1.0]])

EXPECTED = {
    "bernoulli": [[0.0, 0.05, 0.2], [0.4999, 1.0, 1.0], [0.3, 1.0, 1.0]],
    "hard": [[0.0, 0.0, 0.0], [0.0, 1.0, 1.0], [0.0, 1.0, 1.0]],
    "bernoulli_fixed(0.25)": [[0.0, 0.25, 0.25], [0.25, 1.0, 1.0], [0.25, 1.0, 1.0]],
    "bernoulli_only": [[0.0, 0.05, 0.2], [0.4999, 0.5, 0.7], [0.3, 0.95, 1.0]],
    "capped": [[0.0, 0.05, 0.2], [0.4999, 0.5, 0.5], [0.3, 0.5, 0.5]],
    "topk(0.34)": [[0.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 1.0]],
}


def frequencies(scores: torch.Tensor, policy: str, draws: int, rho: float = 0.5) -> torch.Tensor:
    """Share of the steps of a real head that kept each edge."""
    from edgemask.heads.random import counter_uniform, step_key

    rule = parse_policy(policy)
    count = torch.zeros_like(scores)
    for step in range(draws):
        key = step_key(torch.tensor(11), torch.tensor(step))
        uniform = counter_uniform(key, rule.numbers * scores.shape[0], scores.shape[1])
        shape = scores.shape if rule.numbers == 1 else (rule.numbers, *scores.shape)
        count += edge_mask(scores, rho, policy, uniform=uniform.reshape(shape))
    return count / draws


@pytest.mark.parametrize("policy", EXPECTED)
def test_keep_probability(policy: str) -> None:
    torch.testing.assert_close(
        keep_probability(SCORES, 0.5, policy), torch.tensor(EXPECTED[policy])
    )


@pytest.mark.parametrize("policy", EXPECTED)
def test_edges_are_kept_as_often_as_stated(policy: str) -> None:
    # 9 edges at 99.9 % each, two-sided normal bound (z = 3.9 after Bonferroni), fixed seed
    draws = 6_000
    p = torch.tensor(EXPECTED[policy])
    bound = 3.9 * (p * (1 - p) / draws).sqrt() + 2.0**-16
    assert ((frequencies(SCORES, policy, draws) - p).abs() <= bound).all()


@pytest.mark.parametrize("policy", EXPECTED)
def test_an_edge_of_score_zero_is_never_kept(policy: str) -> None:
    scores = torch.zeros(200, 50)
    scores[0, 0] = 1.0
    mask = edge_mask(scores, 0.5, policy)
    assert mask.sum() <= 1


@pytest.mark.parametrize("keep", [0.1, 0.25, 0.5, 0.777, 1.0])
def test_topk_keeps_exactly_its_share(keep: float) -> None:
    scores = torch.rand(37, 11) + 1e-3
    mask = edge_mask(scores, 0.5, f"topk({keep})")
    count = math.floor(keep * scores.numel() + 0.5)
    assert mask.sum() == count
    if count < scores.numel():
        assert scores[mask == 1].min() >= scores[mask == 0].max()


def test_topk_counts_ties_once() -> None:
    assert edge_mask(torch.full((10, 10), 0.5), 0.5, "topk(0.3)").sum() == 30


def test_shuffled_keeps_as_many_and_for_no_reason() -> None:
    scores = torch.rand(100, 100, generator=torch.Generator().manual_seed(1)) ** 2
    expected = keep_probability(scores, 0.5).mean()
    torch.testing.assert_close(
        keep_probability(scores, 0.5, "shuffled"), expected.expand_as(scores)
    )
    masks = torch.stack([edge_mask(scores, 0.5, "shuffled") for _ in range(20)])
    # 2e5 coins, standard error below 1.2e-3: four of them, 99.99 %
    assert (masks.mean() - expected).abs() < 4.8e-3
    correlation = torch.corrcoef(torch.stack([masks.mean(0).flatten(), scores.flatten()]))[0, 1]
    assert correlation.abs() < 0.04  # four standard errors of 1e4 pairs
    chosen = torch.stack([edge_mask(scores, 0.5) for _ in range(20)]).mean(0)
    assert torch.corrcoef(torch.stack([chosen.flatten(), scores.flatten()]))[0, 1] > 0.8


def test_shuffled_permutes_anew_at_each_draw() -> None:
    scores = torch.zeros(10, 10)
    scores[:, 0] = 1.0  # ten sure edges, the rest impossible
    one, two = (edge_mask(scores, 0.5, "shuffled") for _ in range(2))
    assert one.sum() == two.sum() == 10
    assert not torch.equal(one, two)


def test_policies_by_text_and_object() -> None:
    assert parse_policy("topk(keep=0.3)") == parse_policy(" topk ( 0.3 ) ") == POLICIES["topk"](0.3)
    assert parse_policy("bernoulli_fixed") == POLICIES["bernoulli_fixed"](0.5)
    assert SEMLinear(2, 2, policy=POLICIES["hard"]()).policy == POLICIES["hard"]()
    assert all(POLICIES.summaries().values())


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ("bernouli", "unknown policy 'bernouli'.*'bernoulli'"),
        ("topk(1.5)", r"policy topk: keep must lie in \[0, 1\], got 1.5"),
        ("bernoulli_fixed(nan)", "p must lie in"),
        ("topk(many)", "does not take 'many'"),
        ("hard(0.3)", "hard does not take '0.3'"),
        ("topk(", "not of the form"),
        (0.5, "not of the form|unknown policy"),
    ],
)
def test_wrong_policies(policy: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        SEMLinear(4, 3, policy=policy)
