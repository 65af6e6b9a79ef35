"""Nodes slower than sold: what is sold next is lowered, and rises again on a quiet machine."""

import pytest

from auctune.service.storage.event_log import EventType
from auctune.service.zones.core.job import SpeedEstimator
from support.zones import MadeUpZone


def test_a_slower_slot_counts_fully_a_faster_one_by_half_and_an_idle_one_a_little() -> None:
    estimator = SpeedEstimator()
    estimator.record_slot(1.3)
    assert estimator.speed == 1.0
    estimator.record_slot(0.4)
    assert estimator.speed == 0.4
    estimator.record_slot(0.8)
    assert estimator.speed == pytest.approx(0.6)
    estimator.record_idle_slot()
    assert estimator.speed == pytest.approx(0.65)
    estimator.record_slot(0.0)
    assert estimator.speed == 0.1
    for _ in range(60):
        estimator.record_idle_slot()
    assert estimator.speed == pytest.approx(1.0, abs=1e-3)


def made_with_job() -> tuple[MadeUpZone, int]:
    """Return a zone with one job, in the first slot that trains it."""
    made = MadeUpZone(num_nodes=1)
    made.zone.decide(made.bid("a", "100", rows=400, slots=9, share=0.25))
    made.keep()
    slot = made.zone.state.jobs["a"].cells[0].slot
    while made.zone.state.slot < slot:
        made.pass_slots()
    return made, slot


def test_what_is_sold_after_a_slow_slot_is_lowered_and_the_owner_is_told() -> None:
    made, slot = made_with_job()
    as_measured = made.zone.task(made.bid("b", "100")).work
    made.answer(slot, "n0", share=0.4)
    assert made.zone.speed.speed == pytest.approx(0.4, abs=0.05)
    slower = made.zone.task(made.bid("c", "100"))
    assert slower.work == pytest.approx(as_measured / made.zone.speed.speed)
    (noted,) = (event for event, _ in made.log.events if event.type == EventType.NOTE_ADDED)
    assert noted.body["text"].startswith("the machine was slower than sold")


def test_a_job_sold_at_a_lower_speed_has_rows_to_train_by_its_slots() -> None:
    made, slot = made_with_job()
    made.answer(slot, "n0", share=0.5)
    made.zone.decide(made.bid("d", "100", rows=200, slots=9, share=0.25))
    made.keep()
    job = made.zone.state.jobs["d"]
    while made.zone.state.jobs["d"].progress.rows < job.total_rows:
        made.pass_slots()
        for ordered in list(made.executor.orders):
            made.answer(*ordered)
    assert "d" in made.trained
    assert made.zone.speed.speed > 0.5


def test_a_slot_that_trained_all_that_was_sold_lowers_nothing() -> None:
    made, slot = made_with_job()
    made.answer(slot, "n0")
    assert made.zone.speed.speed == 1.0
    assert not made.zone.state.jobs["a"].notes
