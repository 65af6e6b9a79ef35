"""Nodes that fail and come back in a simulated market, and what becomes of the tasks on them.

A file of outages is a JSON list of {"slot": s, "node": id, "event": "lost" | "returned"}: the node
runs nothing from slot s on, or is there again from slot s on. Within a slot outages come before
bids, in file order.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, RootModel

from auctune.domain import (
    Admission,
    Cell,
    Cluster,
    Commitment,
    Decision,
    InputError,
    NodeLost,
    NodeReturned,
    Schedule,
    Task,
)
from auctune.files.schema import STRICT, check_schema

Outage = NodeLost | NodeReturned


@dataclass(frozen=True, slots=True)
class Change:
    """A task's plan was changed after it was sold.

    Attributes:
        task: the task.
        decision: what was promised.
        before: its cells until then.
        cells: its cells now; of a refunded task those in which it has run.
        refunded: it got its payment back, and is not finished.
    """

    task: Task
    decision: Decision
    before: tuple[Cell, ...]
    cells: tuple[Cell, ...]
    refunded: bool


@dataclass(frozen=True, slots=True)
class _Promise:
    task: Task
    decision: Decision
    schedule: Schedule


class Outages:
    """Plays outages to a mechanism, and keeps the plans of tasks that they may hit.

    Args:
        cluster: the supply.
        events: by slot.
    """

    def __init__(self, cluster: Cluster, events: Sequence[Outage]) -> None:
        self._type_of = {node.id: node.type for node in cluster.nodes}
        self._left = sorted(events, key=lambda event: event.now)
        self._promises: dict[str, _Promise] = {}

    @property
    def last(self) -> int:
        """The slot of the last one to come; -1 if there is none."""
        return self._left[-1].now if self._left else -1

    def admitted(self, task: Task, decision: Decision) -> None:
        """Remember what was promised, as long as outages are to come."""
        if self._left and decision.schedule is not None:
            self._promises[task.id] = _Promise(task, decision, decision.schedule)

    def begin(self, mechanism: Admission, now: int) -> list[Change]:
        """Tell the mechanism of the outages of slot `now`; the plans that changed."""
        changes: list[Change] = []
        while self._left and self._left[0].now <= now:
            event = self._left.pop(0)
            if isinstance(event, NodeReturned):
                mechanism.apply(event)
            else:
                changes += self._lose(mechanism, event)
        if not self._left:
            self._promises.clear()
        return changes

    def _lose(self, mechanism: Admission, event: NodeLost) -> list[Change]:
        now = event.now
        self._promises = {
            name: promise
            for name, promise in self._promises.items()
            if promise.schedule.finish >= now
        }
        running = [self._commitment(promise, now) for promise in self._promises.values()]
        changes = []
        for replanned in mechanism.lose_node(event.node, now, running):
            promise = self._promises[replanned.task.id]
            before = promise.schedule
            cells = replanned.cells(before)
            change = Change(promise.task, promise.decision, before.cells, cells, replanned.refunded)
            changes.append(change)
            if replanned.refunded:
                del self._promises[promise.task.id]
            else:
                plan = Schedule(cells, before.vendor)
                self._promises[promise.task.id] = _Promise(promise.task, promise.decision, plan)
        return changes

    def _commitment(self, promise: _Promise, now: int) -> Commitment:
        task, schedule = promise.task, promise.schedule
        done = sum(
            task.throughput[self._type_of[node]] for slot, node in schedule.cells if slot < now
        )
        return Commitment(task, schedule, max(task.work - done, 0.0))


class _OutageModel(BaseModel):
    model_config = STRICT

    slot: int
    node: str
    event: Literal["lost", "returned"]


class _OutagesModel(RootModel[list[_OutageModel]]):
    pass


def read_outages(path: Path, cluster: Cluster) -> tuple[Outage, ...]:
    """Return the outages in a file, by slot.

    Raises:
        InputError: naming file and field, if it is no such list, or names a node or a slot that
            the cluster does not have, a node that is lost twice, or one that returns unlost.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(
            str(path), f"cannot be read ({error.strerror})", "a list of outages"
        ) from None
    except (ValueError, RecursionError):
        raise InputError(str(path), "is not JSON", "a list of outages") from None
    rows = check_schema(_OutagesModel, data, str(path)).root
    known = {node.id for node in cluster.nodes}
    lost: set[str] = set()
    events: list[Outage] = []
    for index, row in sorted(enumerate(rows), key=lambda pair: pair[1].slot):
        place = f"{path}: [{index}]"
        if not 0 <= row.slot < cluster.slots:
            raise InputError(
                f"{place}.slot", f"{row.slot}", f"a slot of the horizon, 0 to {cluster.slots - 1}"
            )
        if row.node not in known:
            raise InputError(f"{place}.node", f"{row.node!r} is no node", "the id of a node")
        if (row.event == "lost") == (row.node in lost):
            found = f"{row.node!r} is {'lost already' if row.node in lost else 'not lost'}"
            raise InputError(f"{place}.event", found, "lost and returned in turns, by slot")
        lost ^= {row.node}
        kind = NodeLost if row.event == "lost" else NodeReturned
        events.append(kind(row.node, row.slot))
    return tuple(events)
