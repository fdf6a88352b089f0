"""Labelled and unlabelled batches side by side."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from edgemask.data import DataBundle, Loader, Pair, PairedLoader, from_arrays


@pytest.fixture(scope="module")
def bundle() -> DataBundle:
    x = np.arange(100, dtype=np.float32)[:, None]
    return from_arrays(x, np.arange(100) % 4, x_test=x, y_test=np.arange(100) % 4)


def part(bundle: DataBundle, start: int, stop: int, **options: object) -> Loader:
    settings = {"bundle": bundle, "batch_size": 8, "indices": range(start, stop)} | options
    return Loader(bundle.train, **settings)  # type: ignore[arg-type]


def test_an_epoch_is_one_labelled_pass_and_the_rest_is_cycled(bundle: DataBundle) -> None:
    pairs = list(PairedLoader(part(bundle, 0, 64), part(bundle, 64, 84)))
    assert len(pairs) == 8
    labelled = torch.cat([pair.labelled.index for pair in pairs])
    assert sorted(labelled.tolist()) == list(range(64))
    unlabelled = [pair.unlabelled.index.tolist() for pair in pairs if pair.unlabelled]
    for cycle in range(2):
        seen = [i for batch in unlabelled[3 * cycle : 3 * cycle + 3] for i in batch]
        assert sorted(seen) == list(range(64, 84))
    assert unlabelled[0] != unlabelled[3]


@pytest.mark.parametrize("drop_last", [False, True])
def test_small_and_empty_sets(bundle: DataBundle, drop_last: bool) -> None:
    few = PairedLoader(part(bundle, 0, 24), part(bundle, 50, 53, drop_last=drop_last))
    assert [len(pair.unlabelled.index) for pair in few if pair.unlabelled] == [3, 3, 3]
    none = list(PairedLoader(part(bundle, 0, 24), part(bundle, 50, 50, drop_last=drop_last)))
    assert len(none) == 3
    assert all(pair.unlabelled is None for pair in none)
    assert list(PairedLoader(part(bundle, 0, 0), part(bundle, 50, 60))) == []


@pytest.mark.parametrize("workers", [0, 1])
def test_pairs_resume_bit_for_bit(bundle: DataBundle, workers: int) -> None:
    def make() -> PairedLoader:
        loader = PairedLoader(part(bundle, 0, 64, workers=workers), part(bundle, 64, 84, seed=1))
        loader.set_epoch(2)
        return loader

    def flat(pairs: list[Pair]) -> list[torch.Tensor]:
        return [
            tensor
            for pair in pairs
            for half in pair
            if half is not None
            for tensor in (half.index, half.target, *half.views)
        ]

    whole = list(make())
    loader = make()
    for number, _ in enumerate(loader):
        if number == 4:
            break
    resumed = make()
    resumed.load_state_dict(loader.state_dict())
    rest = list(resumed)
    assert len(rest) == 3
    assert all(map(torch.equal, flat(rest), flat(whole[5:])))
    assert len(list(resumed)) == 8
