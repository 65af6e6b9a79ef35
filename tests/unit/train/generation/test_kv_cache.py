"""The block of keys and values, against plain lists."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from auctune.train.generation.kv_cache import KvBatch

HEADS, SIZE = 2, 3


def append(batch: KvBatch, columns: int, counter: list[int]) -> list[list[int]]:
    """Pass some tokens through; return the numbers of their keys, by row."""
    rows = len(batch.lengths)
    numbers = torch.arange(counter[0], counter[0] + rows * columns).view(rows, columns)
    counter[0] += rows * columns
    keys = numbers.view(rows, 1, columns, 1).expand(rows, HEADS, columns, SIZE).float()
    batch.cache.update(keys, -keys, 0)
    batch.advance(columns)
    return [list(row) for row in numbers.tolist()]


def check(batch: KvBatch, expected: list[list[int]]) -> None:
    assert batch.lengths == [len(row) for row in expected]
    if not expected:
        assert batch.width == 0
        return
    layer = batch.cache.layers[0]
    keys = layer.keys[: layer.num_rows, :, : layer.num_columns]
    values = layer.values[: layer.num_rows, :, : layer.num_columns]
    assert keys.isfinite().all()
    mask = batch.mask(0)
    for row, numbers in enumerate(expected):
        padding = batch.width - len(numbers)
        for head in range(HEADS):
            assert keys[row, head, padding:, 0].tolist() == [float(one) for one in numbers]
            assert values[row, head, padding:, -1].tolist() == [-float(one) for one in numbers]
        if mask is None:
            assert padding == 0
        else:
            assert mask[row].tolist() == [0] * padding + [1] * len(numbers)


@pytest.mark.slow
@settings(max_examples=100)
@given(st.data())
def test_rows_join_and_leave(data: st.DataObject) -> None:
    device = torch.device("cpu")
    batch, counter = KvBatch(device), [1]
    expected: list[list[int]] = []
    for _ in range(data.draw(st.integers(1, 25))):
        action = data.draw(st.sampled_from(("join", "join long", "remove", "pass")))
        if action.startswith("join"):
            other = KvBatch(device, 1)
            most = 400 if action == "join long" else 5
            new = append(other, data.draw(st.integers(1, most)), counter)
            copies = data.draw(st.integers(1, 3))
            batch.join(other, copies)
            expected += [list(new[0]) for _ in range(copies)]
        elif expected and action == "remove":
            row = data.draw(st.integers(0, len(expected) - 1))
            batch.remove(row)
            expected[row] = expected[-1]
            expected.pop()
        elif expected:
            new = append(batch, 1, counter)
            expected = [old + more for old, more in zip(expected, new, strict=True)]
        check(batch, expected)
