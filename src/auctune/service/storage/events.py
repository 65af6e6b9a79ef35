"""Events as they are recorded in the log, and the types that all zones have in common."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

Record = dict[str, Any]


class EventType(StrEnum):
    """Types of events that all kinds of zones have in common."""

    ZONE_CREATED = "zone.created"
    """Body: version, kind, epoch, slot_seconds, and the settings of the kind."""
    SLOT_STARTED = "slot.started"
    RECEIVED = "job.received"
    DECIDED = "job.decided"
    TRAINED = "job.trained"
    METERED = "job.metered"
    PAUSED = "job.paused"
    RESUMED = "job.resumed"
    CANCELLED = "job.cancelled"
    FINISHED = "job.finished"
    FAILED = "job.failed"
    NOTE_ADDED = "job.note_added"
    OUT_OF_MEMORY = "job.out_of_memory"
    TOKENS_USED = "tokens.used"
    """About no job: the charge of a request for answers."""


@dataclass(frozen=True, slots=True)
class ZoneEvent:
    """An event as it is recorded.

    Attributes:
        seq: number in the whole log, increasing.
        slot: in which it was recorded.
        type: an `EventType`, or one of the kind of zone.
        job: id of the job that it is about, or None.
        body: plain JSON values: the fields of an `EventData`.
    """

    seq: int
    zone: str
    slot: int
    at: float
    type: str
    job: str | None
    body: Record


def job_of(event: ZoneEvent) -> str:
    """Return the id of the job of an event that is about one."""
    assert event.job is not None
    return event.job
