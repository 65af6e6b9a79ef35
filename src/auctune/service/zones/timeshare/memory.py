"""A timeshare zone's memory: what its state is made of, as bytes and of events."""

from typing import Any

import numpy as np
import orjson

from auctune.domain import read_snapshot
from auctune.service.zones.change import Change
from auctune.service.zones.event import ZoneEvent
from auctune.service.zones.timeshare.state import TimeshareState


class TimeshareMemory:
    """Of one zone.

    Attributes:
        state: what its events have come to.
    """

    def __init__(self) -> None:
        self.state = TimeshareState()

    @property
    def seq(self) -> int:
        """Of the newest event applied; 0 before the first."""
        return self.state.seq

    def load(self, body: bytes) -> None:
        """Take over a snapshot, into a memory that is empty."""
        saved = read_snapshot(body)
        self.state.load(orjson.loads(saved["state"].tobytes()))

    def apply(self, event: ZoneEvent) -> Change:
        """Take over one event."""
        return self.state.apply(event)


def saved_state(state: TimeshareState) -> dict[str, Any]:
    """A state in words; nothing of it changes when the zone goes on."""
    # As bytes: names that users chose stand for nothing in it.
    return {"state": np.frombuffer(orjson.dumps(state.to_record()), dtype=np.uint8)}
