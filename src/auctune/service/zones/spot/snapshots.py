"""What a rented zone remembers, made anew from a snapshot and events; and put into words."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import orjson

from auctune.domain import read_snapshot
from auctune.service.zones.core.events import ZoneEvent
from auctune.service.zones.core.job import PendingJob
from auctune.service.zones.core.read_model import Effects
from auctune.service.zones.spot.job import SpotJobState
from auctune.service.zones.spot.state import SlotStats, SpotState
from auctune.service.zones.spot.zone import SpotZone


@dataclass(frozen=True, slots=True)
class SpotModel:
    """A zone's state: there is nothing beside it that decides by what was."""

    state: SpotState = field(default_factory=SpotState)

    @property
    def seq(self) -> int:
        """Of the newest event applied."""
        return self.state.seq

    def load(self, body: bytes) -> None:
        """Take over a snapshot."""
        record = orjson.loads(read_snapshot(body)["state"].tobytes())
        state = self.state
        state.seq, state.slot = record["seq"], record["slot"]
        for one in map(PendingJob.from_record, record["received"]):
            state.received[one.id] = one
        for job in map(SpotJobState.from_record, record["jobs"]):
            state.jobs[job.id] = job
        state.starts, state.speeds = record["starts"], record["speeds"]
        for seen in record["slots"]:
            state.slots[seen["slot"]] = SlotStats(**seen)

    def apply(self, event: ZoneEvent) -> Effects:
        """Take over one event."""
        return self.state.apply(event)


class SpotSaver:
    """Of one zone: its jobs are few."""

    def seq(self, zone: SpotZone) -> int:
        """Of the newest event that the memory knows."""
        return zone.state.seq

    def prepare(self, zone: SpotZone) -> bool:
        """There is nothing to do ahead."""
        return True

    def save(self, zone: SpotZone) -> dict[str, Any]:
        """All that the zone remembers."""
        return {"state": np.frombuffer(orjson.dumps(state_record(zone.state)), dtype=np.uint8)}


def state_record(state: SpotState) -> dict[str, Any]:
    """A state as plain values."""
    return {
        "seq": state.seq,
        "slot": state.slot,
        "received": [one.to_record() for one in state.received.values()],
        "jobs": [job.to_record() for job in state.jobs.values()],
        "slots": [vars(seen) for seen in state.slots.values()],
        "starts": state.starts,
        "speeds": state.speeds,
    }
