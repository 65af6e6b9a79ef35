from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auctune.domain import InputError
from auctune.domain.data_size import DataSize
from auctune.domain.dataset import CUT_CAUSES, DropCause

COUNT = st.integers(0, 40)
METHODS: st.SearchStrategy[Any] = st.sampled_from(["supervised", "dpo", "kto"])
SIZES = st.builds(
    lambda rows, num_truncated, dropped, longest, context, validation: DataSize(
        rows=rows + num_truncated,
        mean_tokens=12.5,
        num_truncated=num_truncated,
        dropped={cause: count for cause, count in dropped.items() if count},
        longest=longest,
        context_tokens=context,
        validation=validation,
    ),
    st.integers(1, 40),
    COUNT,
    st.fixed_dictionaries({str(cause): COUNT for cause in DropCause}),
    st.integers(1, 9999),
    st.none() | st.just(512),
    st.none() | st.just(DataSize(3, 9.0, num_truncated=1, longest=80)),
)


@given(SIZES)
def test_a_size_survives_its_record(size: DataSize) -> None:
    assert DataSize.from_record(size.to_record()) == size


@given(SIZES, st.booleans())
def test_more_than_a_tenth_of_the_rows_lose_their_ends_by_their_owners_word_alone(
    size: DataSize, truncate: bool
) -> None:
    num_lost = size.num_truncated + sum(size.dropped.get(cause, 0) for cause in CUT_CAUSES)
    num_rows = size.rows + sum(size.dropped.values())
    if truncate or 10 * num_lost <= num_rows:
        size.check_truncation("file", 64, truncate=truncate)
        return
    with pytest.raises(InputError) as caught:
        size.check_truncation("file", 64, truncate=truncate)
    assert caught.value.found.endswith(
        f"max_length = 64 would be truncated: {num_lost} of {num_rows}"
    )
    assert str(size.longest) in caught.value.expected


def test_notes_count_what_is_lost_and_say_what_would_fit() -> None:
    dropped = {"prompt_too_long": 3, "weights_zero": 2}
    lost = DataSize(95, 40.0, num_truncated=4, dropped=dropped, longest=803)
    assert lost.notes(512) == (
        "rows longer than max_length = 512 are truncated: 4 of 100; with max_length = 803"
        " no row is truncated",
        "rows without training targets are skipped: 5 of 100 (3 with a prompt that fills"
        " max_length, 2 with weight 0 on all messages of the assistant)",
    )
    beyond = DataSize(10, 40.0, num_truncated=1, longest=803, context_tokens=600)
    (note,) = DataSize(10, 40.0, validation=beyond).notes(512)
    assert note == (
        "validation data: rows longer than max_length = 512 are truncated: 1 of 10; the longest"
        " has 803 tokens, and the base reads at most 600: split long rows"
    )
    (note,) = beyond.notes(2048)
    assert note.startswith("rows longer than the base's context of 600 are truncated: 1 of 10; ")
    assert DataSize(10, 40.0).notes(512) == ()


WORK = st.builds(
    lambda rows, tokens, validation: DataSize(rows, tokens, validation=validation),
    st.integers(1, 40),
    st.floats(1.0, 500.0),
    st.none() | st.builds(DataSize, st.integers(1, 4000), st.floats(1.0, 500.0), method=METHODS),
)
EPOCHS = st.integers(1, 5)


@given(WORK, EPOCHS, st.floats(0.5, 100.0))
def test_work_is_that_of_training_and_half_of_the_validation_tokens(
    size: DataSize, epochs: int, sample_tokens: float
) -> None:
    tokens = size.rows * size.mean_tokens
    if size.validation is not None:
        # The tokens of pairs count one and a half, for training; two forward passes are one token.
        share = {"supervised": 0.5, "dpo": 1 / 1.5, "kto": 0.8}[size.validation.method]
        tokens += share * size.validation.rows * size.validation.mean_tokens
    found = size.samples(epochs, sample_tokens)
    assert found == pytest.approx(epochs * tokens / sample_tokens)
    if size.validation is None:
        # To the bit what it was before validation counted.
        assert found == size.rows * epochs * size.mean_tokens / sample_tokens


@given(WORK, EPOCHS, st.floats(0.0, 1.0))
def test_work_covers_rows_in_the_order_in_which_they_pass(
    size: DataSize, epochs: int, share: float
) -> None:
    whole = size.samples(epochs, 1.0)
    rows = size.rows_of(share * whole, epochs)
    costs = [size.mean_tokens] * size.rows
    if size.validation is not None:
        costs += [size.mean_tokens * size.validation_row_cost] * size.validation.rows
    costs *= epochs
    # The oracle: each row is paid in its turn, but for rounding.
    assert sum(costs[:rows]) <= share * whole * (1 + 1e-9)
    assert sum(costs[: rows + 1]) >= share * whole * (1 - 1e-9)
    assert size.share_of(rows, epochs) == pytest.approx(sum(costs[:rows]) / sum(costs))
    assert size.share_of(len(costs), epochs) == pytest.approx(1.0)
    assert size.total_rows(epochs) == len(costs)


def test_what_validation_costs_is_said() -> None:
    size = DataSize(12, 10.0, validation=DataSize(3000, 15.0))
    assert size.work_notes(3) == (
        "work: training 120 tokens x 3, validation 45,000 tokens x 3; a validation token counts as"
        " 0.5 training tokens",
    )
    assert "45,000 tokens in each slot;" in size.work_notes(3, in_each_slot=True)[0]
    assert DataSize(12, 10.0).work_notes(3) == ()
