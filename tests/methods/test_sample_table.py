"""Tables by sample: written by index, joined over processes."""

from __future__ import annotations

import pytest
import torch

from edgemask.methods.parts import Memory, SampleTable
from edgemask.methods.parts.memory import joined_rows


def test_rows_are_written_and_added_by_index():
    table = SampleTable(5, 2)
    table.write(torch.tensor([4, 0]), torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    table.add(torch.tensor([4, 4]), torch.ones(2, 2))
    assert table.values.tolist() == [[3, 4], [0, 0], [0, 0], [0, 0], [3, 4]]
    assert table[torch.tensor([4])].tolist() == [[3, 4]]
    assert isinstance(table, Memory)


def test_what_is_written_carries_no_gradient():
    table = SampleTable(2)
    table.write(torch.tensor([0]), torch.ones(1, requires_grad=True) * 2)
    assert not table.values.requires_grad


def test_state_survives_and_other_shapes_are_refused():
    table = SampleTable(3, fill=0.5)
    table.write(torch.tensor([1]), torch.tensor([2.0]))
    other = SampleTable(3)
    other.load_state_dict(table.state_dict())
    assert other.values.tolist() == [0.5, 2.0, 0.5]
    with pytest.raises(ValueError, match=r"\(3,\).*\(4,\)"):
        SampleTable(4).load_state_dict(table.state_dict())


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_joining_takes_each_row_from_its_writer(dtype):
    tables = [torch.tensor([1, 2, 3, 9]).to(dtype), torch.tensor([5, 6, 7, 9]).to(dtype)]
    written = [torch.tensor([True, False, True, False]), torch.tensor([False, True, True, False])]

    def joined(rank):
        # Both processes' contributions to each of the two sums, computed as they would be.
        sums = iter(
            [
                sum(w.to(torch.int64) for w in written),
                sum(torch.where(w, t, 0).double() for w, t in zip(written, tables, strict=True)),
            ]
        )
        return joined_rows(tables[rank], written[rank], lambda _: next(sums))

    # Row 2 was written by both: the mean of 3 and 7.
    assert joined(0).tolist() == [1, 6, 5, 9]
    assert joined(1).tolist() == [1, 6, 5, 9]
