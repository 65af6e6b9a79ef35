"""What sites are given to train, slot by slot, and what becomes of what they did not train."""

import pytest

from auctune.domain import write_snapshot
from auctune.edge import first_violation
from auctune.engine.edge.edge_folder import OUTCOME
from auctune.service.storage.event_log import EventType
from auctune.service.zones.core.job import Phase
from auctune.service.zones.edge.state import EdgeEventType
from support.edge_zones import MadeUpEdge, outcome_of

MANY = {"a": 48, "b": 48}


def planned(made: MadeUpEdge, name: str = "job") -> list[int]:
    return [part.slot for part in made.zone.state.jobs[name].plan.slots]


def notes(made: MadeUpEdge, kind: str) -> int:
    return sum(event.type == kind for event in made.log.read())


def test_a_job_is_announced_then_given_out_slot_by_slot_and_trained_to_its_end() -> None:
    made = MadeUpEdge()
    made.decide("job", "90", 8, samples=MANY)
    slots = planned(made)
    assert len(slots) > 2
    assert made.sites.coming[-1] == ["job"]
    seen: dict[str, int] = {}
    while made.zone.state.jobs["job"].phase is not Phase.TRAINED:
        made.pass_slots()
        slot, (order,) = made.sites.slots[-1]
        assert (slot, dict(order.taken)) == (made.zone.state.slot, seen)
        assert order.is_last == (slot == slots[-1])
        made.train(slot)
        for move in order.part.moves:
            seen[move.origin] = seen.get(move.origin, 0) + move.chunks
    assert [slot for slot, _ in made.sites.slots] == slots
    assert seen == {"a": 12, "b": 12}
    assert made.zone.state.jobs["job"].progress.rows == 96


@pytest.mark.parametrize(("micro_batch", "rows"), [(3, 2), (8, 8), (5, 4), (100, 8)])
def test_a_running_job_trains_whatever_the_micro_batch_of_its_zone_becomes(
    micro_batch: int, rows: int
) -> None:
    made = MadeUpEdge()
    made.decide("job", "90", 8, samples=MANY)
    made.pass_slots()
    made.train(made.zone.state.slot)
    made.entry = made.entry.model_copy(update={"micro_batch": micro_batch})
    made.restart()
    made.pass_slots()
    assert made.sites.slots[-1][1][0].training.micro_batch == rows


def test_a_slot_is_given_out_when_the_one_before_is_answered_for() -> None:
    made = MadeUpEdge()
    made.decide("job", "90", 8, samples=MANY)
    made.pass_slots()
    made.pass_slots()
    assert len(made.sites.slots) == 1
    made.train(made.sites.slots[0][0])
    assert len(made.sites.slots) == 2


def test_a_slot_may_run_into_the_next_one_but_not_beyond_the_deadline() -> None:
    made = MadeUpEdge()
    made.decide("job", "90", 8, samples=MANY)
    made.decide("late", "90", 1, samples={"c": 4})
    made.pass_slots()
    slot, orders = made.sites.slots[0]
    until = {order.job.id: order.until for order in orders}
    assert until == {
        "job": made.zone.clock.slot_end(slot + 1),
        "late": made.zone.clock.slot_end(slot),
    }


def test_a_slot_after_lost_ones_may_run_longer() -> None:
    made = MadeUpEdge()
    made.decide("job", "90", 9, samples={"c": 4})
    made.pass_slots()
    first, _ = made.sites.slots[-1]
    made.hear(kind="slot_lost", job="job", slot=first, why="it was not finished in time")
    made.hear(kind="slot_done", slot=first)
    made.pass_slots()
    slot, (order,) = made.sites.slots[-1]
    assert slot > first
    assert order.until == made.zone.clock.slot_end(slot + 2)


def test_what_came_to_nothing_is_planned_anew_and_all_is_trained_once() -> None:
    made = MadeUpEdge()
    made.decide("job", "90", 9, samples=MANY)
    paid = made.log.balances()
    made.pass_slots()
    first = made.zone.state.slot
    made.hear(kind="slot_lost", job="job", slot=first, why="it was not finished in time")
    released = [event for event in made.log.read() if event.type == "job.released"]
    why = f"slot {first} was not trained: it was not finished in time"
    assert [event.body["why"] for event in released] == [why]
    made.hear(kind="slot_done", slot=first)
    job = made.zone.state.jobs["job"]
    assert (job.failed_slots, job.chunks_left) == (1, 0)
    assert first not in planned(made)
    while made.zone.state.jobs["job"].phase is not Phase.TRAINED:
        made.pass_slots()
        made.train(made.zone.state.slot)
    assert made.zone.state.jobs["job"].progress.rows == 96
    assert made.log.balances() == paid


def test_a_slot_that_ran_over_the_next_one_in_vain_has_both_planned_anew_at_once() -> None:
    made = MadeUpEdge()
    made.decide("job", "90", 9, samples=MANY)
    made.pass_slots()
    first = made.zone.state.slot
    assert first + 1 in planned(made)
    made.pass_slots(2)
    made.hear(
        kind="slot_lost", job="job", slot=first, why="the sites have no room for its data now"
    )
    made.hear(kind="slot_done", slot=first)
    job = made.zone.state.jobs["job"]
    assert (job.failed_slots, job.chunks_left) == (2, 0)
    released = [event for event in made.log.read() if event.type == EdgeEventType.RELEASED]
    assert [event.body["failed_slots"] for event in released] == [[first, first + 1]]
    assert "no room for its data" in released[0].body["why"]
    assert notes(made, EdgeEventType.REPLANNED) == 1


def test_progress_begins_with_the_loss_of_the_first_batch() -> None:
    made = MadeUpEdge()
    made.decide("job", "90", 8, samples=MANY)
    for loss in (0.5, 0.25):
        made.pass_slots()
        made.answer("job", made.zone.state.slot, loss)
        made.hear(kind="slot_done", slot=made.zone.state.slot)
        progress = made.zone.state.jobs["job"].progress
        assert (progress.first_loss, progress.last_loss) == (1.0, loss)


NO_ROOM = "there is too little memory for it now"


def run_out(made: MadeUpEdge) -> int:
    """Memory runs out in the next slot that is given out; which one it was."""
    before = len(made.sites.slots)
    while len(made.sites.slots) == before:
        made.pass_slots()
    slot = made.sites.slots[-1][0]
    made.hear(kind="slot_lost", job="job", slot=slot, why=NO_ROOM, out_of_memory=True)
    made.hear(kind="slot_done", slot=slot)
    return slot


def test_a_job_that_never_fits_loses_two_slots_and_is_refunded_with_what_to_change() -> None:
    made = MadeUpEdge()
    made.decide("job", "90", 9, samples=MANY)
    run_out(made)
    assert made.zone.state.jobs["job"].failed_slots == 1
    made.restart()
    last = run_out(made)
    row = made.log.rows["job"]
    assert (row.status, row.body["error"]["code"]) == ("failed", "out_of_memory")
    said = row.body["error"]["message"]
    assert f"slot {last} was not trained: {NO_ROOM}" in said
    assert "batch_size" in said
    assert row.body["refunded"]
    assert not any(made.log.balances().values())
    assert write_snapshot(made.folded().save()) == made.snapshot


def test_slots_lost_to_memory_are_forgotten_once_the_job_has_trained() -> None:
    made = MadeUpEdge()
    made.decide("job", "90", 9, samples=MANY)
    for _ in range(2):
        run_out(made)
        made.pass_slots()
        made.train(made.zone.state.slot)
    job = made.zone.state.jobs["job"]
    assert (job.failed_slots, job.out_of_memory) == (2, [])


def test_who_trains_next_is_told_of_while_others_train() -> None:
    made = MadeUpEdge()
    made.decide("now", "90", 9, samples=MANY)
    made.pass_slots()
    assert made.sites.ahead == []
    slot, _ = made.sites.slots[-1]
    made.decide("next", "90", 1, samples={"c": 4})
    assert made.sites.ahead == [["next"]]
    # Those that train now are known to train next once they have.
    made.answer("now", slot)
    assert made.sites.ahead[-1] == ["now", "next"]
    before = len(made.sites.coming)
    made.hear(kind="slot_done", slot=slot)
    assert made.sites.coming[before:] == [["now", "next"]]


def test_once_no_job_is_left_the_sites_let_go_of_all() -> None:
    made = MadeUpEdge()
    made.decide("job", "90", 8, samples=MANY)
    while made.zone.state.jobs["job"].phase is not Phase.TRAINED:
        made.pass_slots()
        made.train(made.zone.state.slot)
    before = len(made.sites.coming)
    made.zone.finish("job", ["file-of-it"])
    made.keep()
    made.pass_slots(2)
    made.pass_slots()
    assert made.sites.coming[before:] == [[]]


def test_slots_that_pass_while_nobody_is_there_are_made_good_after_a_restart() -> None:
    made = MadeUpEdge()
    made.decide("job", "90", 9, samples=MANY)
    slots = planned(made)
    made.clock.time += 20.0
    made.restart()
    job = made.zone.state.jobs["job"]
    assert job.chunks_left == 0
    assert not job.missed_slots(made.zone.state.slot)
    assert planned(made) != slots
    assert notes(made, EventType.FAILED) == 0


def test_a_slot_that_was_trained_and_not_told_of_is_taken_over_and_not_trained_again() -> None:
    made = MadeUpEdge()
    made.decide("job", "90", 9, samples=MANY)
    made.pass_slots()
    slot, (order,) = made.sites.slots[0]
    made.kept["job", slot, order.steps] = outcome_of(order)
    made.clock.time += 10.0
    made.restart()
    job = made.zone.state.jobs["job"]
    assert (job.trained, job.failed_slots) == ([slot], 0)
    # Told once more, it says nothing new.
    made.hear(
        kind="slot_trained", job="job", slot=slot,
        outcome=OUTCOME.dump_python(outcome_of(order)),
    )  # fmt: skip
    assert notes(made, EventType.TRAINED) == 1


def test_jobs_leave_a_lost_site_and_may_use_it_when_it_is_there_again() -> None:
    made = MadeUpEdge()
    made.decide("job", "90", 9, samples={"a": 24, "b": 24})
    made.hear(kind="site_lost", site="a")
    job = made.zone.state.jobs["job"]
    assert not job.uses({"a"}, made.zone.state.slot + 1)
    assert job.chunks_left == 0
    row = made.zone.preview(made.bid("other", "90", 9))
    assert all("a" not in part["workers"] for part in row.body["plan"])
    made.hear(kind="site_recovered", site="a")
    assert not made.zone.state.lost
    assert not made.zone.eris.ledger.closed[1:].any()
    again = made.zone.preview(made.bid("other", "90", 9, samples={"a": 24}))
    assert any("a" in part["workers"] for part in again.body["plan"])


def test_a_job_that_trains_while_its_site_is_lost_is_looked_at_when_it_has_answered() -> None:
    made = MadeUpEdge()
    made.decide("job", "90", 9, samples=MANY)
    made.pass_slots()
    slot, _ = made.sites.slots[0]
    before = planned(made)
    made.hear(kind="site_lost", site="a")
    assert planned(made) == before
    made.hear(kind="slot_lost", job="job", slot=slot, why="it was not finished in time")
    job = made.zone.state.jobs["job"]
    assert not job.uses({"a"}, slot + 1)
    ledger = made.zone.eris.ledger
    ledger.give_back(job.job, job.plan)
    assert first_violation(job.job, job.plan, ledger) is None


def test_a_process_that_ends_has_its_slot_given_out_again() -> None:
    made = MadeUpEdge()
    made.decide("job", "90", 9, samples=MANY)
    made.pass_slots()
    made.scheduler.on_process_exit()
    made.scheduler.run_slot(made.zone)
    assert len(made.sites.slots) == 1
    made.hear(kind="ready", lost=[])
    assert len(made.sites.slots) == 2
    assert made.sites.slots[0][0] == made.sites.slots[1][0]


def test_nothing_is_sold_while_nobody_knows_when_the_process_will_be_back() -> None:
    made = MadeUpEdge()
    made.decide("job", "90", 9, samples=MANY)
    made.scheduler.mark_all_lost(made.zone)
    made.keep()
    assert "job" in made.zone.state.jobs
    assert made.zone.preview(made.bid("other", "90", 9)).body["decision"]["admitted"]
    made.scheduler.on_process_exit()
    made.scheduler.mark_all_lost(made.zone)
    made.keep()
    assert not made.zone.preview(made.bid("other", "90", 9)).body["decision"]["admitted"]
    made.hear(kind="ready", lost=["a"])
    assert made.zone.state.lost == {"a"}


def test_a_job_whose_sites_are_gone_for_a_moment_waits_and_is_trained_in_time() -> None:
    made = MadeUpEdge()
    made.decide("job", "90", 9, samples=MANY)
    paid = made.log.balances()
    for site in ("a", "b", "c"):
        made.hear(kind="site_lost", site=site)
    job = made.zone.state.jobs["job"]
    assert job.chunks_left == job.job.num_chunks
    assert "waits for a site" in job.notes[-1]
    made.restart()
    made.pass_slots(2)
    assert planned(made) == []
    for site in ("a", "b", "c"):
        made.hear(kind="site_recovered", site=site)
    assert made.zone.state.jobs["job"].chunks_left == 0
    while made.zone.state.jobs["job"].phase is not Phase.TRAINED:
        made.pass_slots()
        made.train(made.zone.state.slot)
    assert made.zone.state.jobs["job"].progress.rows == 96
    assert made.log.balances() == paid
    assert write_snapshot(made.folded().save()) == made.snapshot


def test_a_job_whose_sites_stay_away_is_refunded_when_no_slot_is_left() -> None:
    made = MadeUpEdge()
    made.decide("job", "90", 9, samples=MANY)
    last = made.zone.state.jobs["job"].deadline_slot
    for site in ("a", "b", "c"):
        made.hear(kind="site_lost", site=site)
    while made.zone.state.slot + 1 < last:
        assert "job" in made.zone.state.jobs
        made.pass_slots()
    assert not made.zone.state.jobs
    assert not any(made.log.balances().values())


@pytest.mark.parametrize("loss", [float("nan"), float("inf")])
def test_weights_that_went_astray_are_the_owner_s_failure(loss: float) -> None:
    made = MadeUpEdge()
    made.decide("job", "90", 9)
    made.pass_slots()
    made.answer("job", made.sites.slots[0][0], loss)
    assert not made.zone.state.jobs
    assert made.log.balances()["user:ada"] > 0


def test_a_job_whose_data_cannot_be_read_any_more_is_refunded() -> None:
    made = MadeUpEdge()
    made.decide("job", "90", 9)
    made.hear(kind="job_failed", job="job", why="market.sites.a: cannot be read")
    assert not made.zone.state.jobs
    assert not any(made.log.balances().values())


def test_a_job_that_is_cancelled_while_it_trains_is_heard_of_no_more() -> None:
    made = MadeUpEdge()
    made.decide("job", "90", 9, samples=MANY)
    made.pass_slots()
    assert made.scheduler.is_running("job")
    made.zone.cancel("job")
    made.keep()
    made.train(made.zone.state.slot)
    assert notes(made, EventType.TRAINED) == 0
    assert not made.scheduler.is_running("job")
