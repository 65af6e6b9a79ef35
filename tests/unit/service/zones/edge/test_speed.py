"""Sites slower than sold: later slots are sold and planned at the speed that they reach."""

import pytest

from auctune.domain import write_snapshot
from auctune.edge import SlotPlan
from auctune.engine.edge.edge_folder import OUTCOME
from auctune.engine.edge.records import SlotRequest
from auctune.replay.edge import EdgeVerifier
from auctune.service.storage.event_log import EventType, ZoneEvent
from auctune.service.zones.core.job import Phase
from auctune.service.zones.edge.state import EdgeEventType
from support.edge_zones import SLOT_SECONDS, MadeUpEdge, outcome_of

LATE = "it was not finished in time"


def events(made: MadeUpEdge, kind: str) -> list[ZoneEvent]:
    return [event for event in made.log.read() if event.type == kind]


def seconds_of(made: MadeUpEdge, order: SlotRequest, speed: float) -> float:
    """Seconds of a slot on sites of a speed relative to their profile."""
    job = made.zone.state.jobs[order.job.id]
    share = made.zone.supply.slot_share(job.training, job.facts, job.job.chunks, order.part)
    return share * SLOT_SECONDS / speed


def train(made: MadeUpEdge, seconds: float) -> None:
    """The requests of the newest slot are trained, each in so many seconds."""
    slot, orders = made.sites.slots[-1]
    for order in orders:
        outcome = {**OUTCOME.dump_python(outcome_of(order)), "seconds": seconds}
        made.hear(kind="slot_trained", job=order.job.id, slot=slot, outcome=outcome)
    made.hear(kind="slot_done", slot=slot)


def lose(made: MadeUpEdge, rows: int, seconds: float) -> None:
    """The time of the newest slot is over when so many rows of each job are trained."""
    slot, orders = made.sites.slots[-1]
    for order in orders:
        made.hear(
            kind="slot_lost", job=order.job.id, slot=slot, why=LATE,
            late={"rows": rows, "seconds": seconds},
        )  # fmt: skip
    made.hear(kind="slot_done", slot=slot)


def keeps_up(made: MadeUpEdge, part: SlotPlan, rate: float) -> bool:
    """Whether the workers of a slot are enough at a rate, in chunks a slot."""
    epochs = made.zone.state.jobs["job"].training.epochs
    return all(
        rate * part.workers[site] >= epochs * count * (1 - 1e-9)
        for site, count in part.chunks_by_site.items()
    )


def with_job(deadline: int = 9, rows: int = 48) -> MadeUpEdge:
    """A zone with one job, in its first slot."""
    made = MadeUpEdge()
    made.decide("job", "90", deadline, samples={"a": rows, "b": rows})
    made.pass_slots()
    return made


def test_a_slot_that_took_too_long_lowers_what_is_sold_and_the_rest_of_its_plan() -> None:
    made = with_job()
    as_sold, _ = made.zone.supply.job(made.bid("other"), made.zone.state.slot)
    before, paid = made.zone.state.jobs["job"].plan, made.log.balances()
    train(made, 2 * SLOT_SECONDS)
    assert made.zone.speed.speed == pytest.approx(0.5)
    assert made.log.balances() == paid
    decided = made.decide("other", "50", 8)
    (event,) = (one for one in events(made, EventType.DECIDED) if one.job == "other")
    assert decided.body["decision"]["admitted"]
    rate = as_sold.chunks_per_worker_slot * made.zone.speed.speed
    assert event.body["job"]["chunks_per_worker_slot"] == pytest.approx(rate)
    job = made.zone.state.jobs["job"]
    first = made.zone.state.slot + 1
    assert job.plan != before
    assert job.chunks_left == 0
    assert all(keeps_up(made, part, rate) for part in job.plan.since(first).slots)
    assert not all(keeps_up(made, part, rate) for part in before.since(first).slots)
    (replaced,) = events(made, EdgeEventType.REPLANNED)
    assert replaced.body["chunks_per_worker_slot"] == pytest.approx(rate)
    assert replaced.body["why"] == "the machine was slower than sold"
    (noted,) = events(made, EventType.NOTE_ADDED)
    assert noted.body["text"].startswith("the machine was slower than sold")
    assert write_snapshot(made.folded().save()) == made.snapshot


def test_a_slot_that_was_finished_in_time_lowers_nothing() -> None:
    made = with_job()
    before = made.zone.state.jobs["job"].plan
    train(made, SLOT_SECONDS)
    job = made.zone.state.jobs["job"]
    assert (made.zone.speed.speed, job.plan, job.notes) == (1.0, before, [])


def test_a_slot_that_was_not_finished_lowers_the_speed_to_that_of_its_rows() -> None:
    made = with_job()
    part = made.sites.slots[-1][1][0].part
    rows = 4 * part.chunks
    made.pass_slots()
    lose(made, rows // 2, SLOT_SECONDS)
    assert made.zone.speed.speed == pytest.approx(0.5)
    (replaced,) = events(made, EdgeEventType.REPLANNED)
    assert replaced.body["why"].endswith(LATE)
    rate = made.zone.state.jobs["job"].job.chunks_per_worker_slot * 0.5
    assert replaced.body["chunks_per_worker_slot"] == pytest.approx(rate)


def test_a_slot_without_a_row_lowers_the_speed_by_a_step() -> None:
    made = with_job()
    lose(made, 0, SLOT_SECONDS / 2)
    assert made.zone.speed.speed == 0.75
    assert made.zone.state.jobs["job"].notes[-1].startswith("the machine was slower than sold")


def test_a_slot_that_began_late_lowers_nothing_if_its_rows_were_as_fast_as_sold() -> None:
    for rows in (0, 4):
        made = with_job()
        order = made.sites.slots[-1][1][0]
        share = rows / (4 * order.part.chunks)
        lose(made, rows, share * seconds_of(made, order, 1.0))
        assert made.zone.speed.speed == pytest.approx(1.0)
        assert made.zone.state.jobs["job"].notes[-1].startswith("the machine was slower than sold")
        assert "chunks_per_worker_slot" not in events(made, EdgeEventType.REPLANNED)[0].body


def test_a_fast_slot_after_a_slow_one_moves_the_speed_half_way_back() -> None:
    made = with_job(rows=96)
    train(made, 2 * SLOT_SECONDS)
    assert made.zone.speed.speed == pytest.approx(0.5)
    made.pass_slots()
    _, orders = made.sites.slots[-1]
    train(made, seconds_of(made, orders[0], 1.0))
    assert made.zone.speed.speed == pytest.approx(0.75)


def test_jobs_that_share_a_slot_without_a_row_lower_the_speed_once() -> None:
    made = MadeUpEdge()
    for name in ("job", "other"):
        made.decide(name, "90", 9, samples={"a": 8, "b": 8})
    made.pass_slots()
    assert len(made.sites.slots[-1][1]) == 2
    lose(made, 0, SLOT_SECONDS)
    assert made.zone.speed.speed == 0.75


def test_a_slot_that_was_lost_for_another_reason_lowers_nothing() -> None:
    made = with_job()
    slot, _ = made.sites.slots[-1]
    made.hear(kind="slot_lost", job="job", slot=slot, why="a site that was to train it is gone")
    assert made.zone.speed.speed == 1.0
    assert "chunks_per_worker_slot" not in events(made, EdgeEventType.REPLANNED)[0].body


@pytest.mark.parametrize("speed", [0.8, 0.5, 0.4])
def test_on_sites_slower_than_their_profile_a_job_is_trained_by_its_deadline(speed: float) -> None:
    made = with_job(rows=24)
    num_answered = 0
    for _ in range(made.zone.state.jobs["job"].deadline_slot):
        if num_answered < len(made.sites.slots):
            num_answered += 1
            _, (order,) = made.sites.slots[-1]
            seconds = seconds_of(made, order, speed)
            if seconds <= 2 * SLOT_SECONDS:
                train(made, seconds)
            else:
                made.pass_slots(2)
                rows = int(4 * order.part.chunks * 2 * SLOT_SECONDS / seconds)
                lose(made, rows, 2 * SLOT_SECONDS)
        if made.zone.state.jobs["job"].phase is Phase.TRAINED:
            break
        made.pass_slots()
    job = made.zone.state.jobs["job"]
    # A slot may run over the next one, and the one that follows has begun when that is known.
    assert job.failed_slots <= 3
    assert job.trained[-1] <= job.deadline_slot
    assert made.zone.speed.speed == pytest.approx(speed, abs=0.2)


def test_a_plan_that_cannot_be_replaced_before_the_deadline_is_kept() -> None:
    made = with_job(deadline=3)
    before = made.zone.state.jobs["job"].plan
    train(made, 4 * SLOT_SECONDS)
    assert made.zone.speed.speed == pytest.approx(0.25)
    assert made.zone.state.jobs["job"].plan == before


def test_a_job_that_trains_later_is_planned_at_the_lower_speed_too() -> None:
    made = with_job()
    made.decide("job 2", "50", 9, samples={"c": 8})
    later = made.zone.state.jobs["job 2"]
    assert later.plan.slots[0].slot > made.zone.state.slot
    train(made, 2 * SLOT_SECONDS)
    assert {event.job for event in events(made, EdgeEventType.REPLANNED)} == {"job", "job 2"}


def test_a_slot_without_work_moves_the_speed_back() -> None:
    made = with_job()
    train(made, 4 * SLOT_SECONDS)
    made.zone.cancel("job")
    made.keep()
    low = made.zone.speed.speed
    made.pass_slots()
    assert made.zone.speed.speed == pytest.approx(low + (1 - low) / 8)


def test_a_log_of_slow_slots_is_decided_again_as_it_was() -> None:
    made = with_job(rows=24)
    train(made, 1.25 * SLOT_SECONDS)
    made.decide("other", "50", 8)
    made.pass_slots()
    lose(made, 12, SLOT_SECONDS)
    made.zone.pause("other")
    made.zone.resume("other")
    made.keep()
    made.restart()
    made.decide("last", "50", 8)
    found = made.log.read()
    assert len([one for one in found if "chunks_per_worker_slot" in one.body]) > 1
    verified = EdgeVerifier(made.record).verify_log(found)
    assert verified.differences == ()
