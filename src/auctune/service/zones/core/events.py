"""What happens in a zone, as the log keeps it; here what zones of all kinds know.

| kind | body |
| --- | --- |
| zone.opened | version, kind, epoch, slot_seconds, and what is of its kind; no kind: auction |
| slot.began | slot, and what is of its kind |
| job.received | owner, request, training, reply |
| job.decided | owner, request, training, size, decision, reply, and what is of its kind |
| job.trained | node, slot, seconds, result |
| job.paused, job.resumed | what is of its kind |
| job.cancelled | - |
| job.finished | files |
| job.failed | code, message, param, refund |
| job.noted | text |
| job.out_of_memory | slot, text; of zones whose slots are sold ahead |

A decision has `admitted` and `reason` in every kind. Each kind has events of its own beside these;
a name says the same in all of them. State is the fold over a zone's events.
"""

from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any, TypeVar

from pydantic import TypeAdapter

VERSION = 5


class EventType(StrEnum):
    """What happened, where zones of all kinds know of it."""

    ZONE_OPENED = "zone.opened"
    SLOT_BEGAN = "slot.began"
    RECEIVED = "job.received"
    DECIDED = "job.decided"
    TRAINED = "job.trained"
    PAUSED = "job.paused"
    RESUMED = "job.resumed"
    CANCELLED = "job.cancelled"
    FINISHED = "job.finished"
    FAILED = "job.failed"
    JOB_NOTED = "job.noted"
    OUT_OF_MEMORY = "job.out_of_memory"


@dataclass(frozen=True, slots=True)
class ZoneEvent:
    """One line of the log.

    Attributes:
        seq: its number in the whole log, rising.
        zone: the zone's name.
        slot: the slot in which it happened.
        at: unix time.
        kind: what happened: a `EventType`, or one of the zone's own kind.
        job: the job that it is about, if it is about one.
        body: plain JSON values.
    """

    seq: int
    zone: str
    slot: int
    at: float
    kind: str
    job: str | None
    body: dict[str, Any]


def job_of(event: ZoneEvent) -> str:
    """Id of the job that an event is about, which is about one."""
    assert event.job is not None
    return event.job


T = TypeVar("T")


@cache
def adapter(of: type[T]) -> TypeAdapter[T]:
    """Return the adapter that reads and writes values of a type as JSON; money is text."""
    return TypeAdapter(of)
