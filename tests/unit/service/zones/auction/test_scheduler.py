"""Between a zone and its nodes: each slot ordered once, failures planned anew, nothing repeated."""

from dataclasses import replace

from auctune.engine.messages.base import ErrorRecord
from auctune.engine.messages.node import Lost, Recovered
from auctune.service.storage.event_log import EventType
from auctune.service.zones.auction.state import AuctionEventType
from auctune.service.zones.core.job import Phase
from support.scripted_node import trained_slot
from support.zones import SLOT_SECONDS, MadeUpZone, made_up_profile


def with_job(rows: int = 400, slots: int = 9) -> MadeUpZone:
    made = MadeUpZone(num_nodes=1)
    made.zone.decide(made.bid("a", "100", rows=rows, slots=slots, share=0.25))
    made.keep()
    assert "a" in made.zone.state.jobs
    return made


def first_slot(made: MadeUpZone) -> int:
    return made.zone.state.jobs["a"].cells[0].slot


def go_to(made: MadeUpZone, slot: int) -> None:
    while made.zone.state.slot < slot:
        made.pass_slots()


def kinds(made: MadeUpZone) -> list[str]:
    return [event.type for event, _ in made.log.events if event.job == "a"]


def test_a_slot_that_a_bid_began_is_ordered_all_the_same() -> None:
    made = with_job()
    slot = first_slot(made)
    go_to(made, slot - 1)
    made.now.time = made.clock.slot_start(slot)
    made.zone.decide(made.bid("b", "0.0001"))
    assert made.zone.state.slot == slot
    made.scheduler.run_slot(made.zone)
    assert (slot, "n0", "a") in made.executor.given


def test_a_job_that_is_on_time_is_not_planned_anew() -> None:
    made = with_job()
    while made.zone.state.jobs["a"].phase is not Phase.TRAINED:
        made.pass_slots()
        for slot, node in list(made.executor.orders):
            made.answer(slot, node)
    assert AuctionEventType.REPLANNED not in kinds(made)
    assert made.trained == ["a"]


def test_after_a_restart_a_slot_on_record_is_not_ordered_again() -> None:
    made = with_job()
    slot = first_slot(made)
    go_to(made, slot)
    made.answer(slot, "n0")
    made.restart()
    assert (slot, "n0") not in made.executor.orders
    assert kinds(made).count(EventType.TRAINED) == 1


def test_after_a_restart_a_slot_that_was_under_way_is_ordered_again() -> None:
    made = with_job()
    slot = first_slot(made)
    go_to(made, slot)
    made.restart()
    assert (slot, "n0") in made.executor.orders


def test_a_trained_job_is_packed_after_a_restart_however_early_it_stopped() -> None:
    made = with_job()
    slot = first_slot(made)
    go_to(made, slot)
    made.answer(slot, "n0", share=0.5, state="done")
    assert made.zone.state.jobs["a"].progress.rows < made.zone.state.jobs["a"].total_rows
    assert not made.zone.state.jobs["a"].cells_from(slot + 1)
    made.restart()
    assert made.trained == ["a"]


def test_a_node_that_was_lost_before_a_restart_is_for_sale_after_it_but_not_a_drained_one() -> None:
    made = MadeUpZone(num_nodes=2)
    made.scheduler.on_message(made.zone, "n0", Lost(how="crashed", missing=False))
    made.zone.drain_node("n1", "repairs")
    made.keep()
    made.restart()
    assert made.zone.state.lost == {"n1"}
    made.scheduler.on_message(made.zone, "n1", Recovered())
    assert made.zone.state.lost == {"n1"}
    made.zone.return_node("n1")
    assert made.zone.state.lost == set()


def lose(made: MadeUpZone, node: str = "n0") -> None:
    made.scheduler.on_message(made.zone, node, Lost(how="crashed", missing=False))
    made.keep()


def test_a_job_without_a_node_waits_until_one_is_back_and_ends_as_sold() -> None:
    made = with_job(rows=100)
    lose(made)
    waiting = made.zone.state.jobs["a"]
    assert not waiting.cells
    assert len(waiting.notes) == 1
    released = kinds(made).count(AuctionEventType.RELEASED)
    made.pass_slots()
    assert kinds(made).count(AuctionEventType.RELEASED) == released == 1
    made.scheduler.on_message(made.zone, "n0", Recovered())
    assert made.zone.state.jobs["a"].cells
    while made.zone.state.jobs["a"].phase is not Phase.TRAINED:
        made.pass_slots()
        for slot, node in list(made.executor.orders):
            made.answer(slot, node)
    assert made.trained == ["a"]


def test_a_job_without_a_node_is_refunded_once_none_could_finish_it() -> None:
    made = with_job(rows=100)
    lose(made)
    slots = 0
    while "a" in made.zone.state.jobs:
        made.pass_slots()
        slots += 1
    assert slots > 1
    assert made.log.rows["a"].body["refunded"]
    assert "no slots are left" in made.log.rows["a"].body["error"]["message"]
    assert made.zone.state.slot <= 9


def test_a_node_that_is_back_as_a_slot_begins_takes_it_from_nobody() -> None:
    made = MadeUpZone(num_nodes=2)
    made.zone.decide(made.bid("a", "100", rows=100, slots=9, share=0.25))
    made.keep()
    cells = made.zone.state.jobs["a"].cells
    lose(made, "n1" if cells[0].node == "n0" else "n0")
    cells = made.zone.state.jobs["a"].cells
    go_to(made, cells[-1].slot - 1)
    made.now.time = made.clock.slot_start(cells[-1].slot)
    (lost,) = made.zone.state.lost
    made.scheduler.on_message(made.zone, lost, Recovered())
    assert (cells[-1].slot, cells[-1].node) in made.executor.orders
    assert made.zone.state.jobs["a"].cells == cells


def test_a_job_without_a_node_waits_over_a_restart() -> None:
    made = with_job(rows=100)
    lose(made)
    made.restart()
    assert made.zone.state.jobs["a"].cells


def test_a_drained_node_ends_its_slot_and_gets_no_other() -> None:
    made = MadeUpZone(num_nodes=2)
    made.zone.decide(made.bid("a", "100", rows=400, slots=9))
    made.keep()
    slot = first_slot(made)
    go_to(made, slot)
    node = made.zone.state.jobs["a"].cells[0].node
    made.zone.drain_node(node, "repairs")
    made.keep()
    assert all(cell.node != node for cell in made.zone.state.jobs["a"].cells_from(slot + 1))
    made.answer(slot, node)
    assert kinds(made).count(EventType.TRAINED) == 1
    assert made.zone.state.jobs["a"].progress.rows > 0


def test_slots_that_passed_while_nobody_was_there_are_planned_anew_or_refunded() -> None:
    made = with_job(rows=100, slots=11)
    passed = first_slot(made)
    made.now.time = made.clock.slot_start(passed + 1)
    made.restart()
    assert made.zone.state.slot == passed + 1
    for slot, node in list(made.executor.orders):
        made.answer(slot, node, share=0.0)
    assert AuctionEventType.REPLANNED in kinds(made)
    late = with_job(rows=100, slots=3)
    late.now.time += 8 * late.clock.slot_seconds
    late.restart()
    assert "a" not in late.zone.state.jobs
    assert late.log.rows["a"].body["refunded"]


def test_a_job_that_was_cancelled_while_its_data_were_looked_at_is_not_decided_on() -> None:
    made = MadeUpZone()
    bid = made.bid("a", "100")
    made.zone.receive("a", "ann", bid.request, bid.training, None)
    assert made.zone.cancel("a")
    assert made.zone.decide_received(bid) is None
    made.keep()
    assert EventType.DECIDED not in kinds(made)
    assert made.log.balances() == {}


def test_a_result_for_a_cancelled_job_changes_nothing() -> None:
    made = with_job()
    slot = first_slot(made)
    go_to(made, slot)
    made.zone.cancel("a")
    made.keep()
    count = len(made.log.events)
    made.answer(slot, "n0")
    assert len(made.log.events) == count


def test_a_job_that_is_paused_at_its_deadline_ends_without_a_refund() -> None:
    made = with_job(slots=9)
    job = made.zone.state.jobs["a"]
    made.zone.pause("a")
    made.keep()
    go_to(made, job.task.deadline)
    assert "a" in made.zone.state.jobs
    made.pass_slots()
    assert "a" not in made.zone.state.jobs
    row = made.log.rows["a"]
    assert row.status == "failed"
    assert row.body["error"]["code"] == "deadline_passed"
    assert not row.body["refunded"]
    assert made.log.balances()["user:ann"] == job.decision.payment
    assert made.folded().state == made.zone.state


def test_a_paused_job_that_is_trained_to_its_end_in_its_last_slot_is_packed() -> None:
    made = with_job()
    job = made.zone.state.jobs["a"]
    slot = first_slot(made)
    go_to(made, slot)
    made.zone.pause("a")
    made.keep()
    go_to(made, job.task.deadline + 1)
    assert "a" in made.zone.state.jobs
    made.answer(slot, "n0", share=0.5, state="done")
    assert made.trained == ["a"]


def test_a_job_whose_deadline_passed_while_it_was_paused_ends_at_a_restart() -> None:
    made = with_job()
    job = made.zone.state.jobs["a"]
    made.zone.pause("a")
    made.keep()
    made.now.time = made.clock.slot_start(job.task.deadline + 1)
    made.restart()
    assert made.log.rows["a"].body["error"]["code"] == "deadline_passed"


NO_MEMORY = "out of memory while loading its adapter"


def run_out(made: MadeUpZone, slot: int) -> None:
    """Memory runs out as the node takes up a slot's task."""
    made.executor.orders.pop((slot, "n0"))
    error = ErrorRecord("", NO_MEMORY, "", out_of_memory=True)
    made.scheduler.on_message(made.zone, "n0", trained_slot(slot, refused={"a": error}))
    made.keep()


def next_order(made: MadeUpZone) -> int:
    for _ in range(12):
        if made.executor.orders:
            break
        made.pass_slots()
    ((slot, _),) = made.executor.orders
    return slot


def test_a_task_that_memory_did_not_hold_is_planned_anew_and_its_owner_reads_why() -> None:
    made = with_job(rows=100, slots=11)
    slot = first_slot(made)
    go_to(made, slot)
    run_out(made, slot)
    job = made.zone.state.jobs["a"]
    assert AuctionEventType.REPLANNED in kinds(made)
    assert job.notes == [f"slot {slot} was not trained on n0: {NO_MEMORY}"]
    while made.zone.state.jobs["a"].phase is not Phase.TRAINED:
        made.pass_slots()
        for at, node in list(made.executor.orders):
            made.answer(at, node)
    assert made.trained == ["a"]


def test_a_task_that_never_fits_loses_two_slots_and_is_refunded_with_what_to_change() -> None:
    made = with_job(rows=150, slots=11)
    for _ in range(2):
        assert "a" in made.zone.state.jobs
        last = next_order(made)
        run_out(made, last)
    row = made.log.rows["a"]
    assert (row.status, row.body["error"]["code"]) == ("failed", "out_of_memory")
    said = row.body["error"]["message"]
    assert f"slot {last} was not trained on n0: {NO_MEMORY}" in said
    assert all(word in said for word in ("memory", "batch_size", "max_length"))
    assert row.body["refunded"]
    assert not any(made.log.balances().values())
    # What it held is for sale again.
    assert kinds(made)[-2:] == [AuctionEventType.RELEASED, EventType.FAILED]
    assert made.folded().state == made.zone.state


def test_slots_lost_to_memory_count_across_restarts_and_each_once() -> None:
    made = with_job(rows=150, slots=11)
    slot = next_order(made)
    run_out(made, slot)
    made.restart()
    # The slot that was under way is tried again.
    run_out(made, slot)
    assert made.zone.state.jobs["a"].out_of_memory == [slot]
    run_out(made, next_order(made))
    assert made.log.rows["a"].body["error"]["code"] == "out_of_memory"


def test_slots_lost_to_memory_are_forgotten_once_the_task_has_trained() -> None:
    made = with_job(rows=150, slots=11)
    for _ in range(2):
        run_out(made, next_order(made))
        slot = next_order(made)
        made.answer(slot, "n0")
    assert made.zone.state.jobs["a"].out_of_memory == []
    assert kinds(made).count(EventType.OUT_OF_MEMORY) == 2
    assert made.folded().state == made.zone.state


def test_no_slot_is_sold_more_than_a_job_has_time_for_if_each_one_loads_it() -> None:
    profile = replace(
        made_up_profile(),
        adapter_seconds=0.02,
        parameter_seconds=1e-8,
        task_load_seconds=1.0,
        resident_seconds=0.1,
    )
    made = MadeUpZone(num_nodes=1, profile=profile)
    bid = made.bid("a", "1000", rows=80, slots=11, rank=16)
    made.zone.decide(bid)
    made.keep()
    assert len(made.zone.state.jobs["a"].cells) > 1
    batch = profile.batch(bid.training, bid.size)
    # In passes that others fill.
    row_seconds = 40 * profile.token_cost(batch) / profile.tokens_per_second()
    trained: list[int] = []
    while made.zone.state.jobs["a"].phase is not Phase.TRAINED:
        made.pass_slots()
        for (slot, node), (order,) in list(made.executor.orders.items()):
            trained.append(order.target - sum(trained))
            # Four tasks share a slot; rows are whole.
            assert trained[-1] * row_seconds + 1.0 + 0.1 <= SLOT_SECONDS / 4 + row_seconds
            made.answer(slot, node)
    assert sum(trained) == 80
    assert AuctionEventType.REPLANNED not in kinds(made)
    assert EventType.NOTE_ADDED not in kinds(made)
    assert made.zone.speed.speed == 1.0
