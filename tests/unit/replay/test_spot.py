"""Ended jobs of a spot zone under another policy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auctune.replay.spot import JobOutcome, PastJob, rental_outcome
from auctune.spot import OnDemandOnly, SpotFirst, SpotJob, SpotMarket, play
from support.thorough import drawn

HISTORY = SpotMarket(np.full(8, 0.4), np.full(8, 2))
RECORDED = JobOutcome(3.0, 2.5)


def past(
    price: list[float], available: list[int], cap: float = 1e9, recorded: JobOutcome = RECORDED
) -> PastJob:
    market = SpotMarket(np.array(price), np.array(available))
    job = SpotJob(workload=3.0, deadline=len(price), n_max=2)
    return PastJob(job, HISTORY, market, "seasonal", cap, 10.0, recorded)


def test_without_a_cap_it_is_what_the_simulator_plays() -> None:
    job = past([0.3, 0.5, 0.2, 0.4], [1, 0, 2, 1])
    for policy in (SpotFirst(), OnDemandOnly()):
        expected = play(policy, job.job, job.market)
        assert job.outcome_under(policy) == JobOutcome(expected.cost, expected.finish)


@drawn(60)
@given(
    price=st.lists(st.floats(0.1, 0.9), min_size=3, max_size=6),
    caps=st.tuples(st.floats(0.0, 8.0), st.floats(0.0, 8.0)),
    data=st.data(),
)
def test_no_cap_is_exceeded_and_a_higher_one_never_hurts(
    price: list[float], caps: tuple[float, float], data: st.DataObject
) -> None:
    counts = st.lists(st.integers(0, 3), min_size=len(price), max_size=len(price))
    available = data.draw(counts)
    low, high = (past(price, available, cap) for cap in sorted(caps))
    free = past(price, available).outcome_under(SpotFirst())
    found = low.outcome_under(SpotFirst()), high.outcome_under(SpotFirst())
    for job, rented in zip((low, high), found, strict=True):
        assert rented.cost <= job.cap + 1e-9
        if rented.finish is not None:
            assert rented == free
    assert found[0].cost <= found[1].cost + 1e-9
    assert found[0].finish is None or found[1].finish is not None


def test_an_outcome_adds_up_and_counts_late_jobs() -> None:
    jobs = [
        past([0.3] * 4, [2] * 4, recorded=JobOutcome(2.0, 3.5)),
        past([0.3] * 4, [2] * 4, recorded=JobOutcome(5.0, 4.5)),
        past([0.3] * 4, [2] * 4, recorded=JobOutcome(1.0, None)),
    ]
    found = rental_outcome((job, job.recorded) for job in jobs)
    assert (found.num_jobs, found.num_late, found.num_capped) == (3, 2, 1)
    assert found.cost == pytest.approx(80.0)
    # Worth 4.5 GPU-slots on time; half a slot late, of two until it is worth nothing, a quarter
    # less; nothing if it never came.
    assert found.value == pytest.approx(10.0 * 4.5 * (1 + 0.75))
    assert found.utility == pytest.approx(found.value - found.cost)
