"""What a zone of any kind does on its desk's thread."""

from collections.abc import Container, Mapping
from typing import Any, Protocol

from auctune.domain import InputError
from auctune.service.jobs.idempotency import IdempotencyKey
from auctune.service.jobs.training import Training
from auctune.service.zones.change import Change
from auctune.service.zones.clock import SlotClock
from auctune.service.zones.event import ZoneEvent
from auctune.service.zones.job_row import JobRow


class Zone(Protocol):
    """One zone, at its newest slot. Each method leaves it whole, and notes what happened."""

    @property
    def name(self) -> str:
        """Of the zone."""
        ...

    @property
    def clock(self) -> SlotClock:
        """Its slots."""
        ...

    def pop_events(self) -> list[tuple[ZoneEvent, Change]]:
        """What happened since the last call."""
        ...

    @property
    def has_unrecorded_change(self) -> bool:
        """Whether it knows of something that is on no record: a command broke off."""
        ...

    def begin_slots(self) -> None:
        """Begin the current slot, if it has not begun."""
        ...

    @property
    def pending_jobs(self) -> Mapping[str, Any]:
        """Jobs that were received and not decided on, by id."""
        ...

    @property
    def admitted_jobs(self) -> Container[str]:
        """Ids of admitted jobs that are not over."""
        ...

    def uses_file(self, file: str) -> bool:
        """Whether a job that is not over needs a file."""
        ...

    def receive(
        self,
        job: str,
        owner: str,
        request: dict[str, Any],
        training: Training,
        reply: IdempotencyKey | None,
    ) -> JobRow:
        """Note a job whose data are still being looked at."""
        ...

    def reject_pending(self, job: str, error: InputError) -> None:
        """A received job cannot be decided on: its data or its terms are wrong."""
        ...

    def fail(
        self, job: str, code: str, message: str, param: str | None, *, refund: bool = True
    ) -> None:
        """End a job that cannot be done."""
        ...

    def cancel(self, job: str) -> bool:
        """End a job for its owner. Whether it was open."""
        ...

    def settle(self, owner: str) -> None:
        """Write what is still to come of an owner's jobs that are over; nothing comes after it."""
        ...

    def pause(self, job: str) -> None:
        """Have a job wait until it is resumed.

        Raises:
            InputError: if it is over, or paused already.
        """
        ...

    def resume(self, job: str) -> bool:
        """Have a paused job go on; whether that is possible now.

        Raises:
            InputError: if it is over, or not paused.
        """
        ...


def is_open(zone: Zone, job: str) -> bool:
    """Whether a job is not over: it waits for a decision, or goes on."""
    return job in zone.pending_jobs or job in zone.admitted_jobs
