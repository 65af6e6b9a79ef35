"""A market whose slots go with the clock, against one that has all slots from the beginning."""

from dataclasses import replace

import numpy as np
import pytest

from auctune.edge import (
    ByDuration,
    EdgeAdvanced,
    EdgeCommitment,
    EdgeJob,
    EdgeMarket,
    EdgeOffered,
    EdgeReplanned,
    Eris,
    Site,
    SiteLost,
)
from auctune.numerics.rng import stream

SITES = (Site("a", {"gpu": 4.0}), Site("b", {"gpu": 3.0}), Site("c", {"gpu": 2.0}))
LENGTH, WINDOW, JOBS = 30, 12, 14


def market(slots: int) -> EdgeMarket:
    return EdgeMarket(slots=slots, sites=SITES, traffic_mb_per_slot=60.0, chunk_mb=2.0)


def jobs() -> list[EdgeJob]:
    """Jobs that may all end within the window in which they arrive, in the order of arrival."""
    draw = stream(3, "window")
    arrivals = sorted(int(one) for one in draw.integers(0, LENGTH - WINDOW, JOBS))
    return [
        EdgeJob(
            id=f"job-{index}",
            arrival=arrival,
            epochs=2,
            chunks={name: int(draw.integers(0, 14)) + 1 for name in "abc"},
            worker={"gpu": 1.0},
            server={"gpu": 0.5},
            chunks_per_worker_slot=2.0,
            parameter_mb=1.5,
            utility=ByDuration((float(draw.uniform(1, 60)),) * (WINDOW - 2)),
        )
        for index, arrival in enumerate(arrivals)
    ]


def test_a_window_that_goes_with_the_clock_decides_as_a_market_that_has_all_slots() -> None:
    still, rolling = Eris(market(LENGTH)), Eris(market(WINDOW))
    answers = []
    for job in jobs():
        rolling.apply(EdgeAdvanced(job.arrival))
        answers.append(rolling.offer(job, job.arrival))
        expected = still.offer(job, job.arrival)
        # One that has all slots may know of lines that are too late to be worth anything.
        assert replace(answers[-1], reason=expected.reason) == expected
    assert len({one.admitted for one in answers}) == 2
    begin, end = rolling.ledger.begin, rolling.ledger.end
    np.testing.assert_array_equal(rolling.ledger.used, still.ledger.used[begin:end])
    np.testing.assert_array_equal(rolling.ledger.traffic, still.ledger.traffic[begin:end])


def test_what_it_remembers_is_the_same_after_a_snapshot_and_by_its_events() -> None:
    first, other = Eris(market(WINDOW)), Eris(market(WINDOW))
    for job in jobs():
        first.apply(EdgeAdvanced(job.arrival))
        other.apply(EdgeAdvanced(job.arrival))
        other.apply(EdgeOffered(job, first.offer(job, job.arrival), job.arrival))
    again = Eris(market(WINDOW))
    again.load(first.save())
    for one in (other, again):
        assert one.ledger.begin == first.ledger.begin
        np.testing.assert_array_equal(one.ledger.used, first.ledger.used)
        job = jobs()[-1]
        assert one.preview(job, job.arrival) == first.preview(job, job.arrival)


def test_a_lost_site_stays_closed_in_slots_that_enter() -> None:
    eris = Eris(market(4))
    eris.apply(SiteLost("b", 1))
    for begin in (3, 20):
        eris.apply(EdgeAdvanced(begin))
        assert eris.ledger.closed[:, 1].all()
        assert not eris.ledger.closed[:, 0].any()
        assert not eris.ledger.used.any()


def test_the_rest_of_a_job_is_planned_by_its_last_slot_or_not_at_all() -> None:
    eris = Eris(market(WINDOW))
    job = replace(jobs()[0], chunks={"a": 15, "b": 15})
    eris.apply(EdgeAdvanced(job.arrival))
    plan = eris.offer(job, job.arrival).plan
    assert plan is not None
    now = plan.slots[0].slot + 1
    eris.apply(EdgeReplanned(job, now, plan.since(now), None))
    kept = EdgeCommitment(job, plan.before(now))
    found = eris.plan_rest(kept, now, plan.finish + 3)
    assert found is not None
    assert found.finish <= plan.finish + 3
    trained = sum(part.chunks for part in (*kept.plan.slots, *found.slots))
    assert trained == job.num_chunks
    assert eris.plan_rest(kept, now, now - 1) is None


def test_a_slot_that_has_passed_is_none_of_the_market_s() -> None:
    eris = Eris(market(WINDOW))
    eris.apply(EdgeAdvanced(8))
    job = jobs()[0]
    assert job.arrival < 8
    with pytest.raises(ValueError, match="a slot from 8 to 19"):
        eris.preview(job, 8)
