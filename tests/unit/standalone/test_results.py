import json
import math
from dataclasses import asdict, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from auctune.domain import Cell, Decision, Reason, Schedule, Task
from auctune.engine.market.report_data import TaskState
from auctune.engine.messages.node import TaskResult
from auctune.engine.records import decision_record, read_decision
from auctune.service.storage.event_log import EventType, ZoneEvent
from auctune.standalone.folder import write_json
from auctune.standalone.results import report_task
from support.sample_report import make_report

CELLS = (Cell(0, "alpha"), Cell(2, "beta"), Cell(3, "beta"))
ADMITTED = Decision(
    "a",
    admitted=True,
    payment=Decimal("1.2300"),
    price=Decimal("1.2300"),
    schedule=Schedule(CELLS, "house"),
    value=0.1 + 0.2,
    surplus=1 / 3,
)
REJECTED = Decision("b", admitted=False, price=Decimal("2.0000"), reason=Reason.UNPROFITABLE)


def test_decisions_come_back_from_their_records_to_the_last_bit() -> None:
    for decision in (ADMITTED, REJECTED):
        assert read_decision(decision_record(decision)) == decision


TASK = Task("a", 0, 5, 10.0, 0.1, Decimal("4.0000"), {"slow": 4.0})


def _event(type_: str, body: dict[str, Any], slot: int = 0) -> ZoneEvent:
    return ZoneEvent(1, "market", slot, 0.0, type_, "a", body)


def _decided(decision: Decision) -> ZoneEvent:
    return _event(EventType.DECIDED, {"decision": decision_record(decision)})


def _trained(slot: int, steps: range, state: str = "training") -> ZoneEvent:
    losses = tuple((step, 4 * step, 40 * step, 9.0 / step, 0.5) for step in steps)
    last = steps[-1]
    result = TaskResult(4 * last, 40, 40 * last, last, state, losses, (), "", exported=False)
    body = {"node": "alpha", "slot": slot, "seconds": 1.5, "result": asdict(result)}
    return _event(EventType.TRAINED, body, slot)


def test_a_task_is_what_the_events_about_it_say() -> None:
    events = [
        _decided(ADMITTED),
        _trained(0, range(1, 4)),
        _event(EventType.NOTE_ADDED, {"text": "checkpoint 3 is damaged"}),
        _trained(2, range(4, 6), "done"),
    ]

    task = report_task(TASK, events)

    assert (task.state, task.finished_slot) == (TaskState.DONE, 2)
    assert task.notes == ("checkpoint 3 is damaged",)
    assert [point.step for point in task.losses] == [1, 2, 3, 4, 5]
    assert (task.payment, task.schedule, task.vendor) == (Decimal("1.2300"), CELLS, "house")
    planned, rejected = report_task(TASK, events[:1]), report_task(TASK, [_decided(REJECTED)])
    assert (planned.state, planned.finished_slot) == (TaskState.PLANNED, None)
    assert (rejected.state, rejected.reason) == (TaskState.REJECTED, Reason.UNPROFITABLE)


def test_steps_that_were_trained_again_from_an_older_checkpoint_count_once() -> None:
    events = [_decided(ADMITTED), _trained(0, range(1, 6)), _trained(2, range(3, 8))]

    assert [point.step for point in report_task(TASK, events).losses] == [1, 2, 3, 4, 5, 6, 7]


def test_a_validation_loss_that_is_not_finite_is_null_in_log_and_report(tmp_path: Path) -> None:
    diverged = _trained(0, range(1, 3), "failed")
    diverged.body["result"]["validation"] = [[1, 4, None, 0.0]]

    task = report_task(TASK, [_decided(ADMITTED), diverged])

    assert task.state is TaskState.FAILED
    assert math.isnan(task.validation[-1].loss)
    sample = make_report()
    names = zip(sample.nodes, ("alpha", "beta"), strict=True)
    nodes = tuple(replace(node, id=name) for node, name in names)
    report = replace(sample, nodes=nodes, tasks=(task,))
    write_json(tmp_path / "report.json", report.to_json())
    (written,) = json.loads((tmp_path / "report.json").read_bytes())["tasks"]
    assert written["validation"] == [{"epoch": 1, "rows": 4, "loss": None, "token_accuracy": 0.0}]
