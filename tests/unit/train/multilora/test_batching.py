from dataclasses import replace
from itertools import chain, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auctune.train.multilora.batching import (
    BatchRow,
    MicroBatch,
    RowBatcher,
    TokenBudgetBatcher,
    share_out,
)


def row(length: int, adapter: str = "a") -> BatchRow:
    tokens = np.zeros(length, dtype=np.int64)
    return BatchRow(adapter, 0, tokens, tokens, 1.0)


def rows(lengths: list[int], adapters: int = 1) -> list[BatchRow]:
    return sorted(
        (row(length, f"a{n % adapters}") for n, length in enumerate(lengths)),
        key=lambda planned: planned.adapter,
    )


@given(
    lengths=st.lists(st.integers(2, 20), min_size=1, max_size=30),
    budget=st.integers(1, 100),
    is_packed=st.booleans(),
)
def test_each_row_goes_once_within_the_budget_and_beside_its_own(
    lengths: list[int], budget: int, is_packed: bool
) -> None:
    given_rows = rows(lengths, adapters=3)
    batches = TokenBudgetBatcher(budget, is_packed=is_packed).split(given_rows)
    planned = [one for batch in batches for one in batch.rows]
    assert sorted(map(id, planned)) == sorted(map(id, given_rows))
    for batch in batches:
        assert len(batch.rows) == 1 or batch.num_tokens <= budget
        assert batch.width == max(map(len, batch.rows))
        names = [one.adapter for one in batch.rows]
        assert names == sorted(names)


@given(lengths=st.lists(st.integers(2, 20), min_size=1, max_size=30), budget=st.integers(20, 100))
def test_packed_rows_have_no_padding_and_two_passes_would_not_be_one(
    lengths: list[int], budget: int
) -> None:
    batches = TokenBudgetBatcher(budget, is_packed=True).split(rows(lengths, adapters=3))
    assert sum(batch.num_tokens for batch in batches) == sum(lengths)
    for one, other in pairwise(batches):
        assert one.num_tokens + len(other.rows[0]) > budget


@pytest.mark.parametrize("is_packed", [True, False])
def test_rows_lie_where_a_batch_says(is_packed: bool) -> None:
    batch = MicroBatch((row(3), row(5), row(2)), is_packed)
    assert batch.starts.tolist() == ([0, 3, 8, 10] if is_packed else [0, 5, 10, 15])
    assert (batch.num_tokens, batch.lengths.sum()) == (10 if is_packed else 15, 10)


@given(
    lengths=st.lists(st.integers(2, 200), min_size=1, max_size=30),
    has_pairs=st.booleans(),
    num_shares=st.integers(1, 5),
)
def test_shares_are_whole_units_in_order_and_even_but_for_one(
    lengths: list[int], has_pairs: bool, num_shares: int
) -> None:
    units = [
        (replace(row(length), beta=0.1),) * 2 if has_pairs else (row(length),) for length in lengths
    ]
    given_rows = [one for unit in units for one in unit]
    shares = share_out(given_rows, num_shares)
    assert len(shares) == num_shares
    assert list(map(id, chain(*shares))) == list(map(id, given_rows))
    # The first device computes in any case.
    assert shares[0]
    total, longest = sum(map(len, given_rows)), max(sum(map(len, unit)) for unit in units)
    for share in shares:
        assert not has_pairs or len(share) % 2 == 0
        assert sum(map(len, share)) <= total / num_shares + longest


@pytest.mark.parametrize("is_packed", [True, False])
def test_a_job_that_fills_the_budget_goes_alone(is_packed: bool) -> None:
    batcher = TokenBudgetBatcher(4 * 128, is_packed=is_packed)
    batches = batcher.split(rows([128] * 16, adapters=4))
    assert [{one.adapter for one in batch.rows} for batch in batches] == [
        {"a0"}, {"a1"}, {"a2"}, {"a3"},
    ]  # fmt: skip


def test_padding_of_mixed_lengths_is_small_where_rows_are_padded() -> None:
    generator = np.random.default_rng(0)
    padding = total = 0
    for _ in range(20):
        lengths = generator.integers(16, 129, size=64).tolist()
        batcher = TokenBudgetBatcher(512, is_packed=False)
        for batch in batcher.split(rows(lengths, adapters=8)):
            padding += batch.num_tokens - batch.lengths.sum()
            total += batch.num_tokens
    assert padding / total <= 0.1


def test_exact_rows_go_one_by_one_in_order() -> None:
    given_rows = [row(5), row(3), row(7, "b")]
    batches = RowBatcher(is_packed=True).split(given_rows)
    assert [batch.rows for batch in batches] == [(one,) for one in given_rows]


def test_exact_passes_of_several_rows_are_cut_at_fixed_places_of_one_job() -> None:
    first, second = [row(5) for _ in range(5)], [row(9, "b") for _ in range(2)]
    batcher = RowBatcher(16, is_packed=True)
    whole = batcher.split([*first, *second])
    assert [batch.rows for batch in whole] == [
        tuple(first[:3]),
        tuple(first[3:]),
        (second[0],),
        (second[1],),
    ]
    in_parts = [*batcher.split(first[:3]), *batcher.split([*first[3:], *second])]
    assert [batch.rows for batch in in_parts] == [batch.rows for batch in whole]


@pytest.mark.parametrize(("budget", "failed", "expected"), [(512, 400, 200), (100, 400, 50)])
def test_a_failed_batch_halves_what_fits(budget: int, failed: int, expected: int) -> None:
    planner = TokenBudgetBatcher(budget, is_packed=True)
    planner.reduce_budget(MicroBatch((row(failed // 4),) * 4, is_packed=True))
    assert planner.budget == expected


def test_a_budget_grows_back_after_passes_that_fit_and_later_after_each_shortage() -> None:
    batcher = TokenBudgetBatcher(512, is_packed=True)
    full, small, failed = (MicroBatch((row(n),) * 4, is_packed=True) for n in (64, 8, 128))

    def passes_until(budget: int) -> int:
        count = 0
        while batcher.budget < budget:
            batcher.record_pass(small)
            batcher.record_pass(full)
            count += 1
        return count

    batcher.reduce_budget(failed)
    assert batcher.budget == 256
    first = passes_until(512)
    batcher.reduce_budget(failed)
    assert passes_until(512) == 2 * first
    for _ in range(1000):
        batcher.record_pass(full)
    assert batcher.budget == 512
