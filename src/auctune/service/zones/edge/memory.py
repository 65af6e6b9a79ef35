"""What an edge zone remembers: its state, and the mechanism that decides, of the same events.

The mechanism is asked without a side effect and changed by events alone, so that live and after a
restart it does the same sums in the same order, and is the same to the last bit.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson

from auctune.domain import read_snapshot
from auctune.edge import (
    EdgeAdvanced,
    EdgeEvent,
    EdgeOffered,
    EdgePlan,
    EdgeReplanned,
    Eris,
    SiteLost,
    SiteReturned,
)
from auctune.run.edge.plain import read_decision, read_job, read_plan
from auctune.service.config.edge import read_supply
from auctune.service.zones.change import Change
from auctune.service.zones.edge.event import EdgeKind
from auctune.service.zones.edge.open_job import SiteJob
from auctune.service.zones.edge.state import EdgeState
from auctune.service.zones.event import Kind, ZoneEvent
from auctune.service.zones.received import Received

_GIVES_UP = (EdgeKind.RELEASED, Kind.PAUSED, Kind.CANCELLED, Kind.FAILED)


@dataclass(frozen=True, slots=True)
class EdgeMemory:
    """State and mechanism."""

    state: EdgeState
    mechanism: Eris

    @property
    def seq(self) -> int:
        """Of the newest event applied."""
        return self.state.seq

    @property
    def received(self) -> Mapping[str, Received]:
        """Jobs that wait for a decision, by id."""
        return self.state.received

    @property
    def jobs(self) -> Mapping[str, SiteJob]:
        """Admitted jobs that are not over, by id."""
        return self.state.jobs

    def load(self, body: bytes) -> None:
        """Take over a snapshot."""
        saved = read_snapshot(body)
        self.mechanism.load(saved["eris"])
        record = orjson.loads(saved["state"].tobytes())
        state = self.state
        state.seq, state.slot, state.lost = record["seq"], record["slot"], set(record["lost"])
        for one in map(Received.from_record, record["received"]):
            state.received[one.id] = one
        for job in map(SiteJob.from_record, record["jobs"]):
            state.jobs[job.id] = job

    def save(self) -> dict[str, Any]:
        """All of it in words; nothing of it changes when the zone goes on."""
        state = self.state
        record = {
            "seq": state.seq,
            "slot": state.slot,
            "lost": sorted(state.lost),
            "received": [one.to_record() for one in state.received.values()],
            "jobs": [job.to_record() for job in state.jobs.values()],
        }
        # As bytes: names that users chose stand for nothing in it.
        text = np.frombuffer(orjson.dumps(record), dtype=np.uint8)
        return {"state": text, "eris": self.mechanism.save()}

    def apply(self, event: ZoneEvent) -> Change:
        """Take over one event."""
        for told in to_eris(event, self.state):
            self.mechanism.apply(told)
        return self.state.apply(event)


def fresh_memory(opened: dict[str, Any]) -> EdgeMemory:
    """Of a zone in which nothing is sold, as the event with which it opened says."""
    return EdgeMemory(EdgeState(), Eris(*read_supply(opened)))


def to_eris(event: ZoneEvent, state: EdgeState) -> Iterator[EdgeEvent]:
    """What an event means to the mechanism.

    Args:
        event: from the log.
        state: as it was before the event.
    """
    body, after = event.body, event.slot + 1
    job = None if event.job is None else state.jobs.get(event.job)
    if event.kind == Kind.SLOT_BEGAN:
        yield EdgeAdvanced(body["slot"])
    elif event.kind == Kind.DECIDED:
        yield EdgeOffered(read_job(body["job"]), read_decision(body["answer"]), event.slot)
    elif event.kind in _GIVES_UP and job is not None:
        rest = job.plan.since(after)
        if rest.slots:
            yield EdgeReplanned(job.job, after, rest, None)
    elif event.kind in (EdgeKind.REPLANNED, Kind.RESUMED) and job is not None:
        found = read_plan(body["found"])
        if found.slots:
            yield EdgeReplanned(job.job, after, EdgePlan(()), found)
    elif event.kind == EdgeKind.SITE_LOST:
        yield SiteLost(body["site"], after)
    elif event.kind == EdgeKind.SITE_RETURNED:
        yield SiteReturned(body["site"], after)
