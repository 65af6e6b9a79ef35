"""What jobs of all kinds of zones have: phase, progress, and the pending job."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from auctune.service.jobs.training import Training
from auctune.service.zones.core.events import ZoneEvent, job_of


class Phase(StrEnum):
    """Where an admitted job stands."""

    PLANNED = "planned"
    """It has not begun: its first slot is to come, or it waits to be started."""
    TRAINING = "training"
    """It has trained, and has slots to come."""
    PAUSED = "paused"
    """Its owner wants nothing held or run for a while."""
    TRAINED = "trained"
    """All is trained; what came out is being packed."""


# Training progress of a job.


@dataclass(frozen=True, slots=True)
class Progress:
    """What training has come to.

    Attributes:
        rows, total_rows: trained, and to train, over all epochs.
        tokens, steps: so far.
        first_loss, last_loss: of the first and the newest optimizer step; none before them.
    """

    rows: int = 0
    total_rows: int = 0
    tokens: int = 0
    steps: int = 0
    first_loss: float | None = None
    last_loss: float | None = None

    def after(self, result: Mapping[str, Any]) -> "Progress":
        """What it is once a slot has come to `result`, as of `job.trained`."""
        losses = result["losses"]
        return Progress(
            rows=result["rows"],
            total_rows=result["total_rows"],
            tokens=result["tokens"],
            steps=result["steps"],
            first_loss=self.first_loss if self.steps or not losses else losses[0][3],
            last_loss=losses[-1][3] if losses else self.last_loss,
        )

    def to_record(self) -> dict[str, Any]:
        """As plain values."""
        return {name: getattr(self, name) for name in self.__slots__}


# Pending jobs: received and not decided on while their data are inspected.


@dataclass
class PendingJob:
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
    def from_record(cls, record: dict[str, Any]) -> "PendingJob":
        """What `to_record` gave."""
        return cls(**{**record, "training": Training.from_record(record["training"])})


def pending_from_event(event: ZoneEvent) -> PendingJob:
    """A job, as the first event about it says."""
    body = event.body
    training = Training.from_record(body["training"])
    return PendingJob(job_of(event), event.seq, body["owner"], event.at, body["request"], training)
