"""Which edges a policy keeps: probabilities, counts, and what never happens."""

from __future__ import annotations

import math

import pytest
import torch

from edgemask.errors import UserError
from edgemask.heads import POLICIES, SEMLinear
from edgemask.heads.philox import stream_of, uniform
from edgemask.heads.policies import EdgewisePolicy, parse_policy
from edgemask.heads.sem import draw_mask

SCORES = torch.tensor([[0.0, 0.05, 0.2], [0.4999, 0.5, 0.7], [0.3, 0.95, 1.0]])

EXPECTED = {
    "bernoulli": [[0.0, 0.05, 0.2], [0.4999, 1.0, 1.0], [0.3, 1.0, 1.0]],
    "hard": [[0.0, 0.0, 0.0], [0.0, 1.0, 1.0], [0.0, 1.0, 1.0]],
    "bernoulli_fixed(0.25)": [[0.25, 0.25, 0.25], [0.25, 1.0, 1.0], [0.25, 1.0, 1.0]],
    "bernoulli_only": [[0.0, 0.05, 0.2], [0.4999, 0.5, 0.7], [0.3, 0.95, 1.0]],
    "capped": [[0.0, 0.05, 0.2], [0.4999, 0.5, 0.5], [0.3, 0.5, 0.5]],
    "capped(0.3)": [[0.0, 0.05, 0.2], [0.3, 0.3, 0.3], [0.3, 0.3, 0.3]],
    "topk(0.34)": [[0.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 1.0]],
}


def frequencies(scores: torch.Tensor, policy: str, draws: int) -> torch.Tensor:
    """The share of draws that kept each edge, by the random numbers of a head."""
    copies = draws if isinstance(parse_policy(policy), EdgewisePolicy) else 1
    rows, columns = len(scores) * copies, scores.shape[1]

    def numbers(purpose: str) -> torch.Tensor:
        stream = stream_of(rows, columns, purpose)
        return uniform(torch.tensor(11), torch.tensor(0), rows, columns, stream)

    mask = draw_mask(scores.repeat(copies, 1), 0.5, policy, numbers=numbers)
    return mask.float().view(copies, *scores.shape).mean(0)


@pytest.mark.parametrize("policy", EXPECTED)
def test_keep_probability(policy: str) -> None:
    torch.testing.assert_close(
        parse_policy(policy).keep_probability(SCORES, 0.5), torch.tensor(EXPECTED[policy])
    )


@pytest.mark.parametrize("policy", EXPECTED)
def test_edges_are_kept_as_often_as_stated(policy: str) -> None:
    # 9 edges at 99.9 % each, two-sided normal bound (z = 3.9 after Bonferroni), fixed seed
    draws = 6_000
    p = torch.tensor(EXPECTED[policy])
    bound = 3.9 * (p * (1 - p) / draws).sqrt() + 2.0**-16
    assert ((frequencies(SCORES, policy, draws) - p).abs() <= bound).all()


@pytest.mark.parametrize("policy", EXPECTED)
def test_an_edge_of_score_zero_is_kept_by_no_rule_that_goes_by_scores(policy: str) -> None:
    scores = torch.zeros(200, 50)
    scores[0, 0] = 1.0
    mask = draw_mask(scores, 0.5, policy)
    if policy.startswith("bernoulli_fixed"):  # p for every edge below rho: 1e4 coins of 0.25
        assert mask.float().mean().item() == pytest.approx(0.25, abs=4 * 0.433 / 100)
    else:
        assert mask.sum() <= 1


def test_bernoulli_fixed_of_one_keeps_every_edge() -> None:
    assert draw_mask(SCORES, 0.5, "bernoulli_fixed(1)").all()


@pytest.mark.parametrize("native", [True, False])
def test_dead_features_under_every_policy(native: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgemask.heads.native.enabled", native)
    x = torch.randn(64, 40)
    x[:, ::2] = 0.0  # their edges score 0
    for policy, share in [("bernoulli_fixed(0.5)", 0.5), ("topk(0.9)", 0.0), ("bernoulli", 0.0)]:
        head, kept = SEMLinear(40, 30, policy=policy, seed=1, rho=0.999), []
        for _ in range(20):
            head(x)
            kept.append(head.last_mask[:, ::2])
        # 12,000 coins, four standard errors
        assert torch.stack(kept).mean().item() == pytest.approx(share, abs=4 * 0.5 / 12_000**0.5)


def test_capped_with_its_own_argument_does_not_depend_on_rho() -> None:
    x, masks = torch.randn(50, 30), []
    for options in ({"policy": "capped", "rho": 0.3}, {"policy": "capped(0.3)", "rho": 0.0}):
        torch.manual_seed(0)
        head = SEMLinear(30, 20, seed=4, **options)
        head(x)
        masks.append(head.last_mask)
    assert torch.equal(*masks)
    assert 0 < masks[0].mean() < 0.3
    head = SEMLinear(30, 20, policy="capped", rho=0.0)
    head(x)
    assert head.last_mask is None


@pytest.mark.parametrize("keep", [0.1, 0.25, 0.5, 0.777, 1.0])
def test_topk_keeps_exactly_its_share(keep: float) -> None:
    scores = torch.rand(37, 11) + 1e-3
    mask = draw_mask(scores, 0.5, f"topk({keep})")
    count = math.floor(keep * scores.numel() + 0.5)
    assert mask.sum() == count
    if count < scores.numel():
        assert scores[mask == 1].min() >= scores[mask == 0].max()


def test_topk_counts_ties_once() -> None:
    assert draw_mask(torch.full((10, 10), 0.5), 0.5, "topk(0.3)").sum() == 30


def test_shuffled_keeps_as_many_edges_chosen_at_random() -> None:
    scores = torch.rand(100, 100, generator=torch.Generator().manual_seed(1)) ** 2
    expected = parse_policy("bernoulli").keep_probability(scores, 0.5).mean()
    torch.testing.assert_close(
        parse_policy("shuffled").keep_probability(scores, 0.5), expected.expand_as(scores)
    )
    masks = torch.stack([draw_mask(scores, 0.5, "shuffled") for _ in range(20)]).float()
    # 2e5 coins, standard error below 1.2e-3: four of them, 99.99 %
    assert (masks.mean() - expected).abs() < 4.8e-3
    correlation = torch.corrcoef(torch.stack([masks.mean(0).flatten(), scores.flatten()]))[0, 1]
    assert correlation.abs() < 0.04  # four standard errors of 1e4 pairs
    chosen = torch.stack([draw_mask(scores, 0.5) for _ in range(20)]).float().mean(0)
    assert torch.corrcoef(torch.stack([chosen.flatten(), scores.flatten()]))[0, 1] > 0.8


def test_shuffled_permutes_anew_at_each_draw() -> None:
    scores = torch.zeros(10, 10)
    scores[:, 0] = 1.0  # ten sure edges, the rest impossible
    one, two = (draw_mask(scores, 0.5, "shuffled") for _ in range(2))
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
        ("capped(0)", r"cap must lie in \(0, 1\], got 0.0"),
        ("capped(1.1)", "cap must lie in"),
        ("topk(many)", "does not take 'many'"),
        ("hard(0.3)", "hard does not take '0.3'"),
        ("topk(", "not of the form"),
        (0.5, "policy=0.5: expected text"),
    ],
)
def test_wrong_policies(policy: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        SEMLinear(4, 3, policy=policy)
