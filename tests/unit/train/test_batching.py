from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auctune.train.multilora.batching import (
    BatchRow,
    MicroBatch,
    RowBatcher,
    TokenBudgetBatcher,
)


def row(length: int, adapter: str = "a") -> BatchRow:
    tokens = np.zeros(length, dtype=np.int64)
    return BatchRow(adapter, 0, tokens, tokens, 1.0)


def rows(lengths: list[int], adapters: int = 1) -> list[BatchRow]:
    return sorted(
        (row(length, f"a{n % adapters}") for n, length in enumerate(lengths)),
        key=lambda planned: planned.adapter,
    )


def time_of(batches: list[MicroBatch], overhead: int) -> int:
    return sum(overhead + batch.num_tokens for batch in batches)


def least_time(lengths: list[int], budget: int, overhead: int) -> int:
    """By trying each way to cut the sorted rows."""
    ordered = sorted(lengths)
    least = None
    for count in range(len(ordered)):
        for cuts in combinations(range(1, len(ordered)), count):
            ends = [0, *cuts, len(ordered)]
            parts = [ordered[a:b] for a, b in pairwise(ends)]
            if all(len(part) == 1 or len(part) * part[-1] <= budget for part in parts):
                time = sum(overhead + len(part) * part[-1] for part in parts)
                least = time if least is None else min(least, time)
    assert least is not None
    return least


@given(
    lengths=st.lists(st.integers(2, 20), min_size=1, max_size=8),
    budget=st.integers(1, 60),
    overhead=st.integers(0, 30),
)
def test_rows_are_cut_where_the_time_is_least(
    lengths: list[int], budget: int, overhead: int
) -> None:
    batches = TokenBudgetBatcher(budget, overhead).split(rows(lengths, adapters=3))
    assert time_of(batches, overhead) == least_time(lengths, budget, overhead)


@given(
    lengths=st.lists(st.integers(2, 20), min_size=1, max_size=30),
    budget=st.integers(1, 100),
)
def test_each_row_goes_once_within_the_budget_and_beside_its_own(
    lengths: list[int], budget: int
) -> None:
    given_rows = rows(lengths, adapters=3)
    batches = TokenBudgetBatcher(budget).split(given_rows)
    planned = [one for batch in batches for one in batch.rows]
    assert sorted(map(id, planned)) == sorted(map(id, given_rows))
    for batch in batches:
        assert len(batch.rows) == 1 or batch.num_tokens <= budget
        assert batch.width == max(map(len, batch.rows))
        names = [one.adapter for one in batch.rows]
        assert names == sorted(names)


def test_a_job_that_fills_the_budget_goes_alone() -> None:
    batches = TokenBudgetBatcher(4 * 128).split(rows([128] * 16, adapters=4))
    assert [{one.adapter for one in batch.rows} for batch in batches] == [
        {"a0"}, {"a1"}, {"a2"}, {"a3"},
    ]  # fmt: skip


def test_padding_of_mixed_lengths_is_small() -> None:
    generator = np.random.default_rng(0)
    padding = total = 0
    for _ in range(20):
        lengths = generator.integers(16, 129, size=64).tolist()
        for batch in TokenBudgetBatcher(512).split(rows(lengths, adapters=8)):
            padding += batch.num_tokens - batch.num_real_tokens
            total += batch.num_tokens
    assert padding / total <= 0.1


def test_exact_rows_go_one_by_one_in_order_and_in_one_shape() -> None:
    given_rows = [row(5), row(3), row(7, "b")]
    batches = RowBatcher({"a": 8, "b": 16}).split(given_rows)
    assert [(batch.rows, batch.width) for batch in batches] == [
        ((one,), width) for one, width in zip(given_rows, (8, 8, 16), strict=True)
    ]


def test_exact_passes_of_several_rows_are_cut_at_fixed_places_of_one_job() -> None:
    first, second = [row(5) for _ in range(5)], [row(9, "b") for _ in range(2)]
    batcher = RowBatcher({"a": 8, "b": 16}, budget=16)
    whole = batcher.split([*first, *second])
    assert [(batch.rows, batch.width) for batch in whole] == [
        (tuple(first[:2]), 8),
        (tuple(first[2:4]), 8),
        (tuple(first[4:]), 8),
        ((second[0],), 16),
        ((second[1],), 16),
    ]
    in_parts = [*batcher.split(first[:4]), *batcher.split([*first[4:], *second])]
    assert [batch.rows for batch in in_parts] == [batch.rows for batch in whole]


@pytest.mark.parametrize(("budget", "failed", "expected"), [(512, 400, 200), (100, 400, 50)])
def test_a_failed_batch_halves_what_fits(budget: int, failed: int, expected: int) -> None:
    planner = TokenBudgetBatcher(budget)
    planner.reduce_budget(MicroBatch((row(2),) * 4, failed // 4))
    assert planner.budget == expected


def test_a_budget_grows_back_after_passes_that_fit_and_later_after_each_shortage() -> None:
    batcher = TokenBudgetBatcher(512)
    full, small = MicroBatch((row(2),) * 4, 64), MicroBatch((row(2),) * 4, 8)

    def passes_until(budget: int) -> int:
        count = 0
        while batcher.budget < budget:
            batcher.record_pass(small)
            batcher.record_pass(full)
            count += 1
        return count

    batcher.reduce_budget(MicroBatch((row(2),) * 4, 128))
    assert batcher.budget == 256
    first = passes_until(512)
    batcher.reduce_budget(MicroBatch((row(2),) * 4, 128))
    assert passes_until(512) == 2 * first
    for _ in range(1000):
        batcher.record_pass(full)
    assert batcher.budget == 512
