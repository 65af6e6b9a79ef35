"""The checker finds each kind of fault, so that the tests which trust it can fail."""

from dataclasses import replace
from decimal import Decimal

import pytest

from auctune.domain import Cell, Cluster, Decision, Node, NodeType, Quote, Schedule, Task
from auctune.sim.feasibility import violations

CLUSTER = Cluster(
    6,
    60.0,
    1.0,
    {"big": NodeType(8.0, 9.0, (0.0,) * 6), "small": NodeType(4.0, 5.0, (0.0,) * 6)},
    (Node("b", "big"), Node("s", "small")),
)
PLAIN = Task("p", 1, 4, 8.0, 4.0, Decimal(1), {"big": 4.0})
BOUGHT = replace(PLAIN, id="q", quotes=(Quote("v", Decimal(0), 1), Quote("w", Decimal(0), 0)))


def admitted(task: Task, *cells: tuple[int, str], vendor: str | None = None) -> Decision:
    plan = Schedule(tuple(Cell(slot, node) for slot, node in cells), vendor)
    return Decision(task.id, admitted=True, schedule=plan, value=0.0, surplus=0.0)


def test_what_can_be_carried_out_has_no_violations() -> None:
    decisions = [
        admitted(PLAIN, (1, "b"), (4, "b")),
        admitted(BOUGHT, (2, "b"), (4, "b"), vendor="v"),
    ]
    assert violations(CLUSTER, [PLAIN, BOUGHT], decisions) == []


@pytest.mark.parametrize(
    ("task", "decision", "constraint"),
    [
        (BOUGHT, admitted(BOUGHT, (2, "b"), (3, "b")), "4a"),
        (BOUGHT, admitted(BOUGHT, (2, "b"), (3, "b"), vendor="x"), "4a"),
        (PLAIN, admitted(PLAIN, (2, "b"), (3, "b"), vendor="v"), "4a"),
        (PLAIN, admitted(PLAIN, (0, "b"), (3, "b")), "4c"),
        (BOUGHT, admitted(BOUGHT, (1, "b"), (3, "b"), vendor="v"), "4c"),
        (PLAIN, admitted(PLAIN, (2, "b"), (5, "b")), "4d"),
        (PLAIN, admitted(PLAIN, (2, "b")), "4e"),
        (replace(PLAIN, throughput={"big": 9.0}), admitted(PLAIN, (2, "b")), "4f"),
        (replace(PLAIN, memory_gb=8.1), admitted(PLAIN, (2, "b"), (3, "b")), "4g"),
        (PLAIN, admitted(PLAIN, (2, "b"), (3, "s")), "p: runs on"),
        (PLAIN, admitted(PLAIN, (2, "b"), (3, "nowhere")), "p: runs on"),
        (PLAIN, admitted(BOUGHT, (2, "b"), (3, "b"), vendor="v"), "4h"),
    ],
)
def test_each_fault_is_found(task: Task, decision: Decision, constraint: str) -> None:
    found = violations(CLUSTER, [task], [decision])
    assert any(line.startswith(constraint) for line in found), found


def test_two_tasks_that_do_not_fit_together_are_found() -> None:
    other = replace(PLAIN, id="o", throughput={"big": 4.5}, memory_gb=4.5)
    decisions = [admitted(task, (2, "b"), (3, "b")) for task in (PLAIN, other)]
    found = violations(CLUSTER, [PLAIN, other], decisions)
    assert sorted({line[:2] for line in found}) == ["4f", "4g"]


def test_a_task_decided_twice_or_never_is_found() -> None:
    decision = admitted(PLAIN, (2, "b"), (3, "b"))
    assert violations(CLUSTER, [PLAIN], []) == ["4h: p was decided 0 times"]
    assert "4h: p was decided 2 times" in violations(CLUSTER, [PLAIN], [decision, decision])
