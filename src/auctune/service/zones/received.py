"""Jobs that were received and wait for a decision: their data are being looked at."""

from dataclasses import dataclass
from typing import Any

from auctune.service.jobs.training import Training
from auctune.service.zones.event import ZoneEvent, job_of


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


def received_of(event: ZoneEvent) -> Received:
    """A job, as the first event about it says."""
    body = event.body
    training = Training.from_record(body["training"])
    return Received(job_of(event), event.seq, body["owner"], event.at, body["request"], training)
