"""SSR, ProMix and Neighborhood Collective Estimation against values of their released functions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from edgemask.methods.neighborhood import corrected_labels, label_disagreement
from edgemask.methods.parts.fmix import low_frequency_mask
from edgemask.methods.parts.neighbours import balanced_votes, nearest_samples
from edgemask.methods.parts.selection import balanced_indices
from edgemask.methods.promix import guess_more, high_confidence, unbiased
from edgemask.methods.ssr import relabel, selected_by_votes

GOLDEN = json.loads(Path(__file__).parents[1].joinpath("golden/six_systems.json").read_text())


def wave(n, m, a=0.7, b=1.3, c=0.1, s=3.0):
    """Return the inputs that the values were made with: ``s sin(a i + b j + c i j)``."""
    i = torch.arange(n, dtype=torch.float64)[:, None]
    j = torch.arange(m, dtype=torch.float64)[None, :]
    return (s * torch.sin(a * i + b * j + c * i * j)).float()


def places(mask):
    return mask.nonzero().flatten().tolist()


def test_ssr_relabels_and_selects_as_released():
    golden = GOLDEN["ssr"]
    i = torch.arange(60)
    given = (3 * i + i * i // 7) % 5
    probabilities = wave(60, 5, 1.1, 0.8, 0.21, 2.0).softmax(dim=1)
    labels = relabel(probabilities, given, 0.6)
    assert places(probabilities.amax(dim=1) > 0.6) == golden["relabelled"]
    sure = torch.tensor(golden["relabelled"])
    assert torch.equal(labels[sure], probabilities[sure].argmax(dim=1))
    around = nearest_samples(wave(60, 8, 1.7, 2.3, 0.37), 7, itself=True)
    votes = balanced_votes(around, labels, 5)
    assert votes[0].tolist() == pytest.approx(golden["score_row0"], abs=1e-6)
    assert places(selected_by_votes(votes, labels, 1.0)) == golden["clean"]
    assert len(golden["clean"]) == golden["selected"]


def test_ssr_repeats_small_classes_as_released():
    labels = torch.tensor([0] * 5 + [1] * 2 + [2] * 3)
    drawn = balanced_indices(torch.arange(10), labels, torch.Generator().manual_seed(0))
    counts = drawn.bincount(minlength=10)
    released = torch.tensor(GOLDEN["ssr"]["sampler_counts"])
    for label in range(3):
        # Which members of a class are drawn once more is random.
        members = labels == label
        assert sorted(counts[members].tolist()) == sorted(released[members].tolist())


def test_neighborhood_verifies_and_corrects_as_released():
    golden = GOLDEN["nce"]
    features, logits = wave(50, 512, 1.7, 0.03, 0.011), wave(50, 5, 0.9, 1.7, 0.13, 2.0)
    labels = 3 * torch.arange(50) % 5
    score = label_disagreement(features, logits, labels, 6)
    assert score[:10].tolist() == pytest.approx(golden["score"], abs=1e-6)
    weights = torch.linspace(0.4, 1, 20)
    pseudo = corrected_labels(
        2 * features,  # the sum of two networks that are equal
        2 * logits,
        labels,
        unlabelled=torch.arange(20, 50),
        candidates=torch.arange(20)[weights > 0.5],
        count=1,
        threshold=0.5,
    )
    assert pseudo.tolist() == golden["pseudo"]


def test_promix_chooses_and_guesses_as_released():
    golden = GOLDEN["promix"]
    z1, z2 = wave(20, 5, 0.9, 1.7, 0.13), wave(20, 5, 0.9, 1.7, 0.14)
    first, second = z1.softmax(dim=1), z2.softmax(dim=1)
    i = torch.arange(20)
    chosen = high_confidence(i % 4 == 0, first, 2 * i % 5, 0.6)
    assert places(chosen) == golden["chosen"]
    more = guess_more(chosen, first, second, tau=0.6, share=0.9)
    assert places(more) == golden["after_guessing"]
    prior = torch.tensor([0.3, 0.25, 0.2, 0.15, 0.1])
    row = unbiased(z1, prior, 0.8)[0].tolist()
    assert row == pytest.approx(golden["debias_pl_row0"], abs=1e-6)


def test_masks_of_fmix_cover_as_much_as_released():
    generator = torch.Generator().manual_seed(0)
    sums = {float(low_frequency_mask(0.37, (8, 8), generator).sum()) for _ in range(20)}
    assert sums == {23.0, 24.0}  # floor or ceiling of 23.68, by a coin
    assert GOLDEN["promix"]["fmix_mask_sum"] in sums
