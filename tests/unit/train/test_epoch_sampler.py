import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auctune.domain import CheckpointError
from auctune.train.epoch_sampler import EpochSampler, epoch_order

cursors = st.builds(
    EpochSampler,
    num_rows=st.integers(1, 40),
    epochs=st.integers(1, 4),
    seed=st.integers(0, 2**70),
)


@given(cursors)
def test_each_epoch_takes_each_row_once(sampler: EpochSampler) -> None:
    for epoch in range(sampler.epochs):
        assert sampler.epoch == epoch
        assert sorted(sampler.next_indices(sampler.num_rows)) == list(range(sampler.num_rows))
    assert (sampler.done, sampler.remaining) == (sampler.total, 0)
    assert sampler.epoch == sampler.epochs
    assert sampler.next_indices(5) == []


@given(cursors, st.lists(st.integers(0, 50), max_size=8))
def test_rows_do_not_depend_on_how_many_are_taken_at_once(
    sampler: EpochSampler, counts: list[int]
) -> None:
    whole = EpochSampler(sampler.num_rows, sampler.epochs, sampler.seed).next_indices(sampler.total)
    pieces = [row for count in counts for row in sampler.next_indices(count)]
    assert pieces == whole[: len(pieces)]
    assert len(pieces) == min(sum(counts), sampler.total)


@given(cursors, st.integers(0, 200))
def test_a_restored_cursor_goes_on_as_the_first_one_would(
    sampler: EpochSampler, count: int
) -> None:
    sampler.next_indices(count)
    state = json.loads(json.dumps(sampler.state()))
    restored = EpochSampler(sampler.num_rows, sampler.epochs, sampler.seed)
    restored.restore(state)
    assert restored.done == sampler.done
    assert restored.next_indices(sampler.total) == sampler.next_indices(sampler.total)


def test_orders_differ_between_epochs_and_seeds_and_never_change() -> None:
    orders = {tuple(epoch_order(50, seed, epoch)) for seed in range(5) for epoch in range(5)}
    assert len(orders) == 25
    # Written down once: a checkpoint of today must be read by any later release.
    assert epoch_order(10, 7, 0).tolist() == FIRST_ORDER


FIRST_ORDER = [6, 2, 4, 5, 3, 9, 7, 0, 8, 1]


def test_every_order_of_three_rows_is_about_as_likely() -> None:
    counts: dict[tuple[int, ...], int] = {}
    for seed in range(6000):
        order = tuple(epoch_order(3, seed, 1).tolist())
        counts[order] = counts.get(order, 0) + 1
    # Chi-square with 5 degrees of freedom: above 20.5 with probability 0.001.
    assert sum((count - 1000) ** 2 / 1000 for count in counts.values()) < 20.5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_rows": 9}, "num_rows is 9"),
        ({"epochs": 3}, "epochs is 3"),
        ({"seed": 1}, "seed is 1"),
        ({"done": 99}, "done is 99"),
        ({"done": None}, "done is None"),
        ({"done": 12}, "order of epoch 1"),
        ({"order": [1, 0]}, "order of epoch 0"),
    ],
)
def test_a_state_that_belongs_elsewhere_is_refused(change: dict[str, object], message: str) -> None:
    sampler = EpochSampler(10, 2, 0)
    sampler.next_indices(4)
    state = sampler.state() | change
    with pytest.raises(CheckpointError, match=message):
        EpochSampler(10, 2, 0).restore(state)


@pytest.mark.parametrize("part", ["num_rows", "epochs", "seed", "done", "order"])
def test_a_state_with_a_part_left_out_is_refused(part: str) -> None:
    state = EpochSampler(10, 2, 0).state()
    del state[part]
    with pytest.raises(CheckpointError, match=part):
        EpochSampler(10, 2, 0).restore(state)


def test_a_cursor_outside_its_rows_is_refused() -> None:
    with pytest.raises(ValueError, match="0 rows"):
        EpochSampler(0, 1, 0)
    with pytest.raises(ValueError, match="done = 5"):
        EpochSampler(2, 2, 0, done=5)
    with pytest.raises(ValueError, match="rows 3 to 5"):
        EpochSampler(2, 2, 0).indices(3, 5)
