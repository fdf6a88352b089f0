"""Loaders: coverage, order, resumption, sharding, subsets and weights."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from edgemask.data import BalancedSubset, Batch, DataBundle, Loader, from_arrays
from edgemask.data.splits import TensorSplit
from edgemask.errors import DataError, UserError
from sweeps import sweep


@pytest.fixture(scope="module")
def bundle() -> DataBundle:
    """Images whose first pixel tells their index."""
    x = np.zeros((103, 8, 8), dtype=np.uint8)
    x[:, 4, 4] = np.arange(103)
    y = np.arange(103) % 5
    return from_arrays(x, y, x_test=x[:7], y_test=y[:7], clean=True)


def features(count: int) -> DataBundle:
    x = np.arange(count, dtype=np.float32)[:, None].repeat(2, 1)
    y = np.arange(count) % 2
    constants = ((0.0, 0.0), (1.0, 1.0))
    names = ["even", "odd"]
    return from_arrays(x, y, x_test=x, y_test=y, class_names=names, normalisation=constants)


def same(a: list[Batch], b: list[Batch]) -> bool:
    return len(a) == len(b) and all(
        torch.equal(p.index, q.index)
        and torch.equal(p.target, q.target)
        and all(map(torch.equal, p.views, q.views))
        for p, q in zip(a, b, strict=True)
    )


def test_every_sample_comes_once_with_its_own_index_and_target(bundle: DataBundle) -> None:
    loader = Loader(bundle.train, bundle=bundle, views=("none", "none"), batch_size=16)
    batches = list(loader)
    index = torch.cat([b.index for b in batches])
    assert sorted(index.tolist()) == list(range(103))
    assert index.tolist() != list(range(103))
    assert torch.equal(torch.cat([b.target for b in batches]), index % 5)
    mean, std = bundle.normalisation
    for batch in batches:
        for view in batch.views:
            pixel = (view[:, 0, 4, 4] * std[0] + mean[0]) * 255
            assert torch.allclose(pixel, batch.index.float(), atol=1e-3)


def test_given_targets_replace_the_labels(bundle: DataBundle) -> None:
    noisy = (bundle.train.labels + 1) % 5
    for batch in Loader(bundle.train, noisy, bundle=bundle, batch_size=50):
        assert torch.equal(batch.target, (batch.index + 1) % 5)
    soft = np.eye(5)[noisy]
    batch = next(iter(Loader(bundle.train, soft, bundle=bundle, batch_size=50)))
    assert batch.target.shape == (50, 5)
    assert batch.target.dtype == torch.float32


@pytest.mark.parametrize("workers", [0, 2])
def test_an_epoch_resumes_anywhere_bit_for_bit(bundle: DataBundle, workers: int) -> None:
    def make() -> Loader:
        views = ("weak", "strong")
        return Loader(bundle.train, bundle=bundle, views=views, batch_size=16, seed=3,
                      workers=workers)  # fmt: skip

    reference = make()
    reference.set_epoch(5)
    whole = list(reference)
    for start in (0, 1, 3, len(whole)):
        loader = make()
        loader.set_epoch(5)
        assert same(list(loader.batches(start)), whole[start:])
        assert same(list(loader), whole)
        loader.set_epoch(6)
        assert len(list(loader)) == len(whole)
    with pytest.raises(UserError, match=r"continue with set_epoch\(epoch\) and batches\(start\)"):
        make().state_dict()


def test_workers_change_nothing_and_leave_the_global_generator_alone(bundle: DataBundle) -> None:
    runs = []
    for workers in (0, 2):
        before = torch.random.get_rng_state()
        loader = Loader(bundle.train, bundle=bundle, batch_size=20, workers=workers)
        runs.append(list(loader))
        assert torch.equal(before, torch.random.get_rng_state())
    assert same(*runs)


def test_a_loader_can_be_pickled_for_workers_that_are_not_forked(bundle: DataBundle) -> None:
    loader = Loader(bundle.train, bundle=bundle, views=("weak", "strong"), batch_size=20)
    assert same(list(pickle.loads(pickle.dumps(loader))), list(loader))


def test_epochs_seeds_and_views_differ(bundle: DataBundle) -> None:
    loader = Loader(bundle.train, bundle=bundle, views=("weak", "weak"), batch_size=103)
    first = next(iter(loader))
    assert not torch.equal(first.views[0], first.views[1])
    again = next(iter(loader))
    assert torch.equal(first.index, again.index)
    loader.set_epoch(1)
    assert not torch.equal(first.index, next(iter(loader)).index)
    other = Loader(bundle.train, bundle=bundle, views=("weak",), batch_size=103, seed=1)
    assert not torch.equal(first.index, next(iter(other)).index)


def test_views_are_drawn_anew_in_each_epoch_and_batch() -> None:
    x = np.zeros((32, 1), np.float32)
    bundle = from_arrays(x, np.arange(32) % 2, x_test=x, y_test=np.arange(32) % 2)
    loader = Loader(bundle.train, bundle=bundle, batch_size=16, shuffle=False)
    drawn = []
    for epoch in range(2):
        loader.set_epoch(epoch)
        drawn += [tuple(batch.views[0].flatten().tolist()) for batch in loader]
    ranks = [
        Loader(bundle.train, bundle=bundle, batch_size=16, rank=r, world_size=2) for r in (0, 1)
    ]
    drawn += [tuple(next(iter(rank)).views[0].flatten().tolist()) for rank in ranks]
    assert len(drawn) == 6
    assert len(set(drawn)) == 5  # rank 0 draws what one process draws for its first batch


@given(
    count=st.integers(1, 60),
    batch=st.integers(1, 9),
    world=st.integers(1, 4),
    shuffle=st.booleans(),
)
def test_shards_cover_every_sample_once(count: int, batch: int, world: int, shuffle: bool) -> None:
    bundle = features(count)
    seen: list[int] = []
    lengths, sizes = [], []
    for rank in range(world):
        loader = Loader(bundle.train, bundle=bundle, views=("none",), batch_size=batch,
                        shuffle=shuffle, rank=rank, world_size=world)  # fmt: skip
        batches = list(loader)
        assert len(batches) == len(loader)
        assert all(len(b.index) for b in batches)
        lengths.append(len(batches))
        sizes.append([len(b.index) for b in batches])
        seen += [i for b in batches for i in b.index.tolist()]
    if shuffle and count < world:
        assert seen == []
        return
    assert sorted(seen) == list(range(count))
    if shuffle:
        assert len(set(lengths)) == 1
        for step in zip(*sizes, strict=True):
            assert max(step) - min(step) <= 1
            assert max(step) <= batch + 2
            if count >= 2 * world and batch > 1:
                assert min(step) >= 2
    else:
        assert max(map(sum, sizes)) - min(map(sum, sizes)) <= 1


def test_ranks_together_see_the_batches_of_one_process() -> None:
    bundle = features(42)
    one = list(Loader(bundle.train, bundle=bundle, views=("none",), batch_size=12, seed=4))
    loaders = [
        Loader(bundle.train, bundle=bundle, views=("none",), batch_size=4, seed=4,
               rank=rank, world_size=3)
        for rank in range(3)
    ]  # fmt: skip
    parts = [list(loader) for loader in loaders]
    for number, joined in enumerate(one):
        pieces = [part[number] for part in parts]
        assert {loader.step_size(number) for loader in loaders} == {len(joined.index)}
        assert torch.equal(torch.cat([p.index for p in pieces]), joined.index)
        assert torch.equal(torch.cat([p.views[0] for p in pieces]), joined.views[0])


def test_a_single_left_over_sample_joins_the_batch_before() -> None:
    bundle = features(33)
    sizes = [len(b.index) for b in Loader(bundle.train, bundle=bundle, batch_size=16)]
    assert sizes == [16, 17]
    loader = Loader(bundle.train, bundle=bundle, batch_size=16, shuffle=False)
    assert [len(b.index) for b in loader] == [16, 16, 1]


def test_drop_last_keeps_an_only_batch() -> None:
    bundle = features(33)
    full = Loader(bundle.train, bundle=bundle, batch_size=16, drop_last=True)
    assert [len(b.index) for b in full] == [16, 16]
    few = Loader(bundle.train, bundle=bundle, batch_size=16, drop_last=True, indices=range(5))
    assert [len(b.index) for b in few] == [5]


def test_subset_by_indices_with_weights(bundle: DataBundle) -> None:
    indices, weights = np.array([7, 50, 3]), np.array([0.5, 0.25, 2.0])
    loader = Loader(bundle.train, bundle=bundle, batch_size=2, indices=indices, weights=weights)
    found = {}
    for batch in loader:
        pairs = zip(batch.index.tolist(), loader.weight(batch.index).tolist(), strict=True)
        found |= dict(pairs)
    assert found == {7: 0.5, 50: 0.25, 3: 2.0}
    plain = Loader(bundle.train, bundle=bundle, batch_size=2)
    assert plain.weight(torch.tensor([1, 2])).tolist() == [1.0, 1.0]


def test_an_empty_subset_has_no_batches(bundle: DataBundle) -> None:
    loader = Loader(bundle.train, bundle=bundle, batch_size=4, indices=[])
    assert len(loader) == 0
    assert list(loader) == []


def test_balanced_subset_is_fresh_balanced_and_reproducible() -> None:
    labels = np.repeat([0, 1, 2], [100, 40, 10])
    subset = BalancedSubset(labels, 60, seed=1)
    first, second = subset(0), subset(1)
    assert np.bincount(labels[first]).tolist() == [20, 20, 10]
    assert len(set(first.tolist())) == 50
    assert not np.array_equal(first, second)
    assert np.array_equal(first, BalancedSubset(labels, 60, seed=1)(0))
    with pytest.raises(DataError, match="size=2"):
        BalancedSubset(labels, 2)


def test_loader_takes_a_balanced_subset_per_epoch(bundle: DataBundle) -> None:
    labels = bundle.train.labels
    subset = BalancedSubset(labels, 50)
    loader = Loader(bundle.train, bundle=bundle, batch_size=16, indices=subset)
    epochs = []
    for epoch in range(2):
        loader.set_epoch(epoch)
        index = torch.cat([b.index for b in loader])
        assert sorted(index.tolist()) == subset(epoch).tolist()
        epochs.append(set(index.tolist()))
    assert epochs[0] != epochs[1]


@sweep(
    ("arguments", "message"),
    [
        ({"targets": np.zeros(5, dtype=int)}, "N = 103"),
        ({"targets": np.full(103, 5)}, "target 5 of sample 0 is out of range 0..4"),
        ({"targets": np.zeros(103)}, "must be integers"),
        ({"indices": [0, 103]}, r"0\.\.102"),
        ({"indices": [0.5]}, "list of integers"),
        ({"indices": [1, 2], "weights": [1.0]}, "2 indices"),
        ({"views": ("wake",)}, "'wake'.*weak"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"rank": 2, "world_size": 2}, "rank=2"),
    ],
)
def test_mistakes_are_named(bundle: DataBundle, arguments: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Loader(bundle.train, **({"bundle": bundle, "batch_size": 8} | arguments))


def test_views_by_name_need_a_bundle(bundle: DataBundle) -> None:
    with pytest.raises(ValueError, match="bundle="):
        Loader(bundle.train, batch_size=8)


def test_samples_that_are_neither_images_nor_features_nor_tokens_are_refused():
    labels = np.zeros(4, np.int64)
    for shape, dtype in (((4, 5), torch.uint8), ((4, 3, 2, 2), torch.int32), ((4, 5), torch.int32)):
        with pytest.raises(DataError, match="samples must be uint8 images"):
            TensorSplit(torch.zeros(shape, dtype=dtype), labels)
    for shape, dtype in (
        ((4, 3, 2, 2), torch.uint8),
        ((4, 5), torch.float32),
        ((4, 5), torch.int64),
    ):
        assert len(TensorSplit(torch.zeros(shape, dtype=dtype), labels)) == 4
