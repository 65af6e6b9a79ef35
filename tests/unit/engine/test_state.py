from dataclasses import asdict
from decimal import Decimal

from auctune.domain import Cell, Decision, Reason, Schedule
from auctune.engine.records import decision_record, read_decision
from auctune.engine.runtime.messages import TaskResult
from auctune.engine.state import VERSION, RunState

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


def _result(steps: range, state: str = "training", note: str = "") -> dict[str, object]:
    losses = tuple((step, 4 * step, 40 * step, 9.0 / step, 0.5) for step in steps)
    last = steps[-1]
    return asdict(TaskResult(4 * last, 40, 40 * last, last, state, losses, (), note, False))


def _trained(slot: int, node: str, result: dict[str, object]) -> dict[str, object]:
    return {
        "type": "trained", "slot": slot, "node": node, "seconds": 1.5, "results": {"a": result},
    }  # fmt: skip


def _decided(decision: Decision) -> dict[str, object]:
    return {"type": "decided", "slot": 0, "decision": decision_record(decision)}


def test_decisions_come_back_from_their_records_to_the_last_bit() -> None:
    for decision in (ADMITTED, REJECTED):
        assert read_decision(decision_record(decision)) == decision


def test_the_state_is_what_the_events_say() -> None:
    state = RunState.fold(
        [
            {"type": "begun", "version": VERSION},
            _decided(ADMITTED),
            _decided(REJECTED),
            {"type": "repaired", "task": "a", "report": {}, "rows": 5, "mean_tokens": 7.5},
            _trained(0, "alpha", _result(range(1, 4))),
            {"type": "note", "text": "alpha was slow"},
            {"type": "slot_done", "slot": 0},
            _trained(2, "beta", _result(range(4, 6), "done", "stopped early")),
            {"type": "released", "task": "a", "cells": [{"slot": 3, "node": "beta"}]},
        ]
    )

    task = state.tasks["a"]
    assert list(state.tasks) == ["a", "b"]
    assert (state.next_slot, state.ended, state.notes) == (1, False, ["alpha was slow"])
    assert state.trained == {(0, "alpha"): 1.5, (2, "beta"): 1.5}
    assert (task.repaired_rows, task.repaired_tokens) == (5, 7.5)
    assert [point[0] for point in task.losses] == [1, 2, 3, 4, 5]
    assert (task.finished_slot, task.notes) == (2, ["stopped early"])
    assert task.cells == CELLS[:2]
    assert state.tasks["b"].cells == ()


def test_steps_that_were_done_again_from_an_older_checkpoint_count_once() -> None:
    state = RunState.fold(
        [
            _decided(ADMITTED),
            _trained(0, "alpha", _result(range(1, 6))),
            _trained(2, "beta", _result(range(3, 8))),
        ]
    )

    assert [point[0] for point in state.tasks["a"].losses] == [1, 2, 3, 4, 5, 6, 7]


def test_the_same_note_of_a_task_is_kept_once() -> None:
    note = {"type": "task_note", "task": "a", "text": "checkpoint 3 is damaged"}
    state = RunState.fold([_decided(ADMITTED), note, note])

    assert state.tasks["a"].notes == ["checkpoint 3 is damaged"]


def test_an_ended_run_is_known_as_such() -> None:
    assert RunState.fold([{"type": "begun"}, {"type": "ended"}]).ended
