"""Nearest samples: against scikit-learn, in chunks, and among a part of many."""

from __future__ import annotations

import pytest
import torch
from sklearn.neighbors import NearestNeighbors

from edgemask.errors import EdgeMaskWarning
from edgemask.methods.parts import neighbours
from edgemask.methods.parts.neighbours import nearest_neighbours, nearest_samples
from edgemask.methods.parts.pseudo_labels import neighbour_target


def unit(*shape):
    return torch.nn.functional.normalize(torch.randn(*shape), dim=1)


def test_nearest_as_scikit_learn_finds_them():
    queries, keys = unit(6, 5), unit(40, 5)
    distance, place = NearestNeighbors(n_neighbors=4, metric="cosine").fit(keys).kneighbors(queries)
    found = nearest_neighbours(queries, keys, 4)
    assert found.position.tolist() == place.tolist()
    assert (1 - found.similarity).flatten().tolist() == pytest.approx(
        distance.flatten().tolist(), abs=1e-5
    )
    assert found.found.all()


def test_no_sample_is_its_own_neighbour():
    keys = unit(10, 3)
    samples = torch.arange(10)
    found = nearest_neighbours(keys, keys, 3, index=samples, key_index=samples)
    without = NearestNeighbors(n_neighbors=3, metric="cosine").fit(keys)
    # Asked without queries, scikit-learn leaves each point out of its own neighbours.
    assert found.position.tolist() == without.kneighbors()[1].tolist()


def test_fewer_keys_than_neighbours_and_none_at_all():
    queries = unit(2, 3)
    found = nearest_neighbours(
        queries, queries, 5, index=torch.arange(2), key_index=torch.arange(2)
    )
    assert found.position.shape == (2, 2)
    assert found.found.tolist() == [[True, False], [True, False]]
    empty = nearest_neighbours(queries, torch.empty(0, 3), 5)
    assert empty.position.shape == (2, 0)
    target, valid = neighbour_target(empty, torch.empty(0, 4))
    assert target.shape == (2, 4)
    assert not valid.any()


def test_chunks_find_what_one_piece_finds(monkeypatch):
    features = torch.randn(50, 6)
    whole = nearest_samples(features, 7)
    monkeypatch.setattr(neighbours, "_CHUNK", 120)  # two queries at a time
    parts = nearest_samples(features, 7)
    assert torch.equal(parts.position, whole.position)
    torch.testing.assert_close(parts.similarity, whole.similarity)


def test_samples_are_looked_up_by_position_whatever_the_length_of_their_features():
    features = torch.randn(40, 5)
    queries, keys = torch.tensor([3, 30, 7]), torch.arange(10, 40)
    found = nearest_samples(features, 4, queries=queries, keys=keys)
    search = NearestNeighbors(metric="cosine").fit(features[keys])
    for row, query in enumerate(queries.tolist()):
        order = search.kneighbors(features[query][None], n_neighbors=5)[1][0]
        wanted = [int(keys[place]) for place in order if int(keys[place]) != query]
        assert found.position[row].tolist() == wanted[:4]
    assert 30 not in found.position[1]
    assert nearest_samples(features, 1, itself=True).position.flatten().tolist() == list(range(40))


def test_among_very_many_samples_a_random_part_is_searched_and_said(monkeypatch):
    monkeypatch.setattr(neighbours, "MOST_KEYS", 20)
    features = torch.randn(60, 4)
    with pytest.warns(EdgeMaskWarning, match="60 samples: neighbours are looked for among 20"):
        found = nearest_samples(features, 3, seed=1)
    assert found.position.shape == (60, 3)
    keys = found.position.unique()
    assert len(keys) <= 20
    assert not (found.position == torch.arange(60)[:, None]).any()
    with pytest.warns(EdgeMaskWarning):
        again = nearest_samples(features, 3, seed=1)
    assert torch.equal(again.position, found.position)
    with pytest.warns(EdgeMaskWarning):
        other = nearest_samples(features, 3, seed=2)
    assert not torch.equal(other.position, found.position)


def test_of_very_many_samples_the_same_share_of_the_keys_is_searched(monkeypatch):
    monkeypatch.setattr(neighbours, "MOST_KEYS", 20)
    features = torch.randn(60, 4)
    # Fewer keys than the limit are drawn from as well: with twice the samples there are twice the
    # keys, and the time must not grow fourfold.
    searched = []
    nearest = nearest_neighbours

    def counted(queries, keys, *args, **options):
        searched.append(len(keys))
        return nearest(queries, keys, *args, **options)

    monkeypatch.setattr(neighbours, "nearest_neighbours", counted)
    with pytest.warns(EdgeMaskWarning, match="60 samples: neighbours are looked for among 20"):
        found = nearest_samples(features, 3, keys=torch.arange(15))
    assert searched == [5]
    assert found.position.unique().numel() <= 5
    assert found.position.max() < 15
    with pytest.warns(EdgeMaskWarning):  # never fewer keys than neighbours that are wanted
        assert nearest_samples(features, 3, keys=torch.arange(4)).position.shape == (60, 3)
    assert searched == [5, 3]
