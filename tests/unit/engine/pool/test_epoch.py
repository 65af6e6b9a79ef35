"""Which whole batches a quantum trains, by what is due and what fits."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from auctune.engine.pool.clock import Quantum, WallClock
from auctune.engine.pool.epoch import MAX_CARRY_OVER, whole_batches
from auctune.numerics.arrays import Floats, Ints


def batches_of(due: Floats, rates: Floats, span: float) -> Ints:
    fitted = WallClock(1.0).fit(Quantum(0, span), due, rates)
    return whole_batches(due, fitted, rates, span)


def train(shares: Floats, rates: Floats, quanta: int) -> Ints:
    """Batches of each job after so many quanta, each as long as its batches take."""
    trained, carried = np.zeros(len(shares), dtype=np.int64), np.zeros(len(shares))
    for _ in range(quanta):
        granted = shares * rates
        batches = batches_of(carried + granted, rates, 1.0)
        trained += batches
        carried = np.clip(carried + granted - batches, 0.0, np.maximum(granted, MAX_CARRY_OVER))
    return trained


def test_a_job_whose_batches_take_many_quanta_is_trained_all_the_same() -> None:
    assert train(np.ones(1), np.array([0.1]), 100).tolist() == [10]


def test_jobs_with_less_than_a_batch_each_in_a_quantum_take_turns() -> None:
    # The first quantum owes nobody a whole batch.
    assert set(train(np.full(5, 0.2), np.full(5, 4.0), 100).tolist()) <= {79, 80}


@given(
    st.lists(st.tuples(st.floats(0.0, 9.0), st.floats(0.05, 50.0)), min_size=1, max_size=6),
    st.floats(0.1, 2.0),
)
def test_batches_are_due_and_fit_but_for_a_single_one(
    jobs: list[tuple[float, float]], span: float
) -> None:
    due, rates = (np.array(column) for column in zip(*jobs, strict=True))
    batches = batches_of(due, rates, span)
    assert (batches <= due + 1e-9).all()
    assert batches.sum() <= 1 or (batches / rates).sum() <= span + 1e-6
    assert batches.any() == (due >= 1.0 - 1e-9).any()
    # No batch is left out for which there is time.
    left = span - (batches / rates).sum()
    assert not ((due - batches >= 1.0) & (1.0 / rates <= left - 1e-6)).any()
