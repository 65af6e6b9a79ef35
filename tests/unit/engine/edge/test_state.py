"""The fold of a run's journal, against a run that was not interrupted."""

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from auctune.domain import InputError
from auctune.domain.money import ZERO
from auctune.edge import EdgeCommitment, Eris
from auctune.engine.edge.driver import run_edge, without
from auctune.engine.edge.edge_folder import EdgeFolder, SlotOutcome
from auctune.engine.edge.inputs import EdgeRunInputs
from auctune.engine.edge.state import (
    BidDecided,
    EdgeRunState,
    JobRefunded,
    JobReplanned,
    JobSlotTrained,
    LoggedEvent,
    RunBegun,
    RunEnded,
    SiteClosed,
    SlotEnded,
    event_record,
    make_report,
    write_report,
)
from auctune.engine.event_log import EventLog
from auctune.sim.edge.instance_file import EdgeInstance
from support.edge_runs import MARKET, make_job

OUTCOME = SlotOutcome(
    before=0, steps=1, chunks=(0,), samples=4, tokens=9, losses=((1, 4, 9, 0.5, 0.25),),
    first_loss=0.5, loss=0.5, validation_loss=0.4, validation_accuracy=0.5,
    seconds=1.0, workers_away=0, chunks_crossed=0, chunk_bytes=0,
    parameter_bytes=0,
)  # fmt: skip
INPUTS = EdgeRunInputs(EdgeInstance(MARKET, (make_job(2),)), {})


def ignore(_event: object, _state: object) -> None:
    pass


def torn_run() -> tuple[Eris, list[LoggedEvent]]:
    """Slot 0 is trained, site b lost within slot 1; the rest is planned anew."""
    (job,) = INPUTS.instance.jobs
    eris = Eris(MARKET)
    decision = eris.offer(job, 0)
    assert decision.plan is not None
    running = [EdgeCommitment(job, without(decision.plan, 1))]
    (found,) = eris.lose_site("b", 2, running)
    return eris, [
        RunBegun(),
        BidDecided(0, "job", decision),
        JobSlotTrained(0, "job", OUTCOME),
        SlotEnded(0),
        SiteClosed("b", 2, [JobReplanned("job", lost_slot=True, found=found.found)]),
    ]


def refunded_run() -> list[LoggedEvent]:
    """The same, but there is no other plan."""
    *events, _ = torn_run()[1]
    return [*events, SiteClosed("b", 2, [JobReplanned("job", lost_slot=True, found=None)])]


def resumed(events: list[LoggedEvent]) -> EdgeRunState:
    """The state after events that were logged and read."""
    state = EdgeRunState(INPUTS.instance, Eris(MARKET))
    state.replay(json.loads(json.dumps([event_record(event) for event in events])))
    return state


def test_a_torn_slots_chunks_are_trained_later_and_elsewhere() -> None:
    _, events = torn_run()
    record = resumed(events).jobs["job"]
    assert record.plan is not None
    assert 1 not in {part.slot for part in record.plan.slots}
    assert sum(part.chunks for part in record.plan.slots) == record.job.num_chunks
    assert record.plan.chunks_before(100) == record.job.chunks
    assert all("b" not in part.workers for part in record.plan.since(2).slots)
    assert record.num_lost_slots == 1


def test_a_resumed_mechanism_has_sold_the_same() -> None:
    eris, events = torn_run()
    again = resumed(events).eris
    for name in ("traffic", "used", "closed"):
        assert (getattr(again.ledger, name) == getattr(eris.ledger, name)).all()


def test_a_job_without_another_plan_is_refunded_in_full() -> None:
    state = resumed(refunded_run())
    (bill,) = make_report(state).jobs
    assert (bill.state, bill.refund, bill.utility) == ("refunded", bill.payment, 0)
    assert not state.commitments()


@pytest.mark.parametrize(
    "change", [{"losses": ((1, 4, 9, float("nan"), 0.0),)}, {"validation_loss": float("inf")}]
)
def test_a_job_whose_training_diverges_fails_and_is_not_refunded(change: dict[str, Any]) -> None:
    (job,) = INPUTS.instance.jobs
    eris = Eris(MARKET)
    diverged = replace(OUTCOME, **change)
    state = resumed([BidDecided(0, "job", eris.offer(job, 0)), JobSlotTrained(0, "job", diverged)])
    record = state.jobs["job"]
    assert (record.is_done, record.is_running) == (False, False)
    (bill,) = make_report(state).jobs
    assert (bill.state, bill.refund, bill.utility) == ("failed", ZERO, 0.0)
    assert not state.eris.ledger.used[1:].any()


def test_a_job_whose_rows_are_lost_is_refunded_and_releases_its_plan() -> None:
    (job,) = INPUTS.instance.jobs
    eris = Eris(MARKET)
    state = resumed([BidDecided(0, "job", eris.offer(job, 0)), JobRefunded(0, "job")])
    (bill,) = make_report(state).jobs
    assert (bill.state, bill.refund) == ("refunded", bill.payment)
    assert not state.eris.ledger.used.any()


def test_a_job_is_done_once_all_its_slots_are_trained() -> None:
    _, events = torn_run()
    plan = resumed(events).jobs["job"].plan
    assert plan is not None
    for part in plan.since(2).slots:
        assert resumed(events).jobs["job"].is_running
        outcome = replace(OUTCOME, steps=part.slot)
        events.append(JobSlotTrained(part.slot, "job", outcome))
    state = resumed(events)
    assert state.jobs["job"].is_done
    (bill,) = make_report(state).jobs
    assert (bill.state, bill.finish, bill.slots) == ("done", plan.finish, len(plan.slots))


def test_a_run_that_ended_writes_its_report_again_without_a_cluster(tmp_path: Path) -> None:
    place = EdgeFolder(tmp_path)
    with closing(EventLog(place.event_log)) as journal:
        for event in [*refunded_run(), RunEnded()]:
            journal.append(event_record(event))
    report = run_edge(INPUTS, place, ignore, resume=True)
    assert json.loads(place.report.read_bytes())["jobs"][0]["state"] == "refunded"
    assert report.lost == {"b": 2}


def test_a_loss_that_is_no_number_is_null_in_the_report(tmp_path: Path) -> None:
    _, events = torn_run()
    diverged = replace(OUTCOME, loss=float("nan"), validation_loss=float("inf"))
    events = [events[1], JobSlotTrained(0, "job", diverged)]
    path = tmp_path / "report.json"
    write_report(path, make_report(resumed(events)))
    (bill,) = json.loads(path.read_text(), parse_constant=pytest.fail)["jobs"]
    assert bill["loss"] is None
    assert bill["validation_loss"] is None


def test_a_cluster_that_does_not_answer_leaves_no_folder(tmp_path: Path) -> None:
    inputs = replace(INPUTS, ray="127.0.0.1:1")
    place = EdgeFolder(tmp_path / "out")
    with pytest.raises(InputError, match="does not answer"):
        run_edge(inputs, place, ignore, prepare=place.inputs.mkdir)
    assert not place.root.exists()


def test_a_device_that_is_not_there_is_said_before_sites_are_opened(tmp_path: Path) -> None:
    inputs = replace(INPUTS, device="cuda:99")
    place = EdgeFolder(tmp_path / "out")
    with pytest.raises(InputError, match="--device: 'cuda:99'"):
        run_edge(inputs, place, ignore, prepare=place.inputs.mkdir)
    assert not place.root.exists()
