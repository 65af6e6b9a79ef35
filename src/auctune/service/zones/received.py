"""Jobs that were received and wait for a decision: their data are being looked at."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from auctune.service.jobs.training import Training
from auctune.service.zones.change import Change
from auctune.service.zones.event import ZoneEvent
from auctune.service.zones.job_row import received_row


@dataclass
class Received:
    """A job whose data are still being looked at."""

    id: str
    seq: int
    owner: str
    created_at: float
    request: dict[str, Any]
    training: Training

    def to_record(self) -> dict[str, Any]:
        """As plain values."""
        return {**vars(self), "training": self.training.to_record()}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> "Received":
        """What `to_record` gave."""
        return cls(**{**record, "training": Training.from_record(record["training"])})


def receive(waiting: dict[str, Received], event: ZoneEvent, own: Mapping[str, Any]) -> Change:
    """Take over that a job was received.

    Args:
        waiting: those that wait, by id.
        event: that says so.
        own: keys of a row that are of the zone's kind, with nothing in them.
    """
    assert event.job is not None
    body = event.body
    training = Training.from_record(body["training"])
    waiting[event.job] = Received(
        event.job, event.seq, body["owner"], event.at, body["request"], training
    )
    return Change(rows=(received_row(event, own),))
