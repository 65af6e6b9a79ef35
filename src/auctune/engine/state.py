"""What a run has come to: a fold over its journal.

| event | says |
| --- | --- |
| begun {version, base, base_digest, inputs} | that the run exists; inputs are digests by path |
| decided {slot, decision} | a bid's answer |
| repaired {task, report, rows, mean_tokens} | a vendor's work |
| trained {slot, node, seconds, results} | what a node did in a slot, by task |
| released {task, cells} | cells that a task no longer needs |
| slot_done {slot} | that nothing is left to do in a slot in which something happened |
| note {text} | something that an operator should know |
| task_note {task, text} | something that a task's owner should know too |
| ended | that all is done |
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from auctune.domain import Cell, Decision
from auctune.engine.event_log import EventRecord
from auctune.engine.records import read_decision
from auctune.engine.runtime.messages import TaskResult, read_result
from auctune.train.job import CurvePoint

VERSION = 2


@dataclass
class TaskRecord:
    """One bid's fate so far.

    Attributes:
        decision: the market's answer.
        repair: the vendor's report; none before it has worked, or without one.
        repaired_rows, repaired_tokens: of its data after the vendor's work: rows, mean tokens.
        result: of its last slot.
        losses: of all steps.
        notes: what its owner should know.
        released: cells given back.
        finished_slot: in which its training ended; none: it goes on.
    """

    decision: Decision
    repair: dict[str, Any] | None = None
    repaired_rows: int = 0
    repaired_tokens: float = 0.0
    result: TaskResult | None = None
    losses: list[CurvePoint] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    released: tuple[Cell, ...] = ()
    finished_slot: int | None = None

    def note(self, text: str) -> None:
        """Keep a note, once."""
        if text not in self.notes:
            self.notes.append(text)

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Cells of its plan that it has not given back."""
        if self.decision.schedule is None:
            return ()
        return tuple(c for c in self.decision.schedule.cells if c not in self.released)


@dataclass
class RunState:
    """All of a run that a resumed one must know.

    Attributes:
        tasks: in the order in which they were decided.
        next_slot: the first one that is not over.
        trained: seconds that a node took for its work, by slot and node.
        notes: what an operator should know.
        ended: all is done.
    """

    tasks: dict[str, TaskRecord] = field(default_factory=dict)
    next_slot: int = 0
    trained: dict[tuple[int, str], float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    ended: bool = False

    @classmethod
    def fold(cls, events: Iterable[EventRecord]) -> "RunState":
        """The state after these events."""
        state = cls()
        for event in events:
            state.apply(event)
        return state

    def apply(self, event: EventRecord) -> None:
        """Take over one event."""
        kind = event["type"]
        if kind == "decided":
            decision = read_decision(event["decision"])
            self.tasks[decision.task] = TaskRecord(decision)
        elif kind == "repaired":
            record = self.tasks[event["task"]]
            record.repair = event["report"]
            record.repaired_rows = event["rows"]
            record.repaired_tokens = event["mean_tokens"]
        elif kind == "trained":
            self.trained[event["slot"], event["node"]] = event["seconds"]
            for task, result in event["results"].items():
                _take_result(self.tasks[task], read_result(result), event["slot"])
        elif kind == "released":
            cells = tuple(Cell(cell["slot"], cell["node"]) for cell in event["cells"])
            self.tasks[event["task"]].released = cells
        elif kind == "slot_done":
            self.next_slot = event["slot"] + 1
        elif kind == "note":
            self.notes.append(event["text"])
        elif kind == "task_note":
            self.tasks[event["task"]].note(event["text"])
        else:
            assert kind in ("begun", "ended"), kind
            self.ended = kind == "ended"


def _take_result(record: TaskRecord, result: TaskResult, slot: int) -> None:
    record.result = result
    if result.losses:
        # A task that fell back to an older checkpoint has done some steps again.
        first = result.losses[0][0]
        record.losses = [point for point in record.losses if point[0] < first]
        record.losses.extend(result.losses)
    if result.note:
        record.note(result.note)
    if result.state != "training" and record.finished_slot is None:
        record.finished_slot = slot
