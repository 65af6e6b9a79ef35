"""How a zone notes what happens: each event is taken over into its state, and kept for the log.

Zones of all kinds receive, refuse, cancel and fail jobs in the same words. A kind decides on bids,
says in which slot its events are booked, and begins its slots.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Generic, Protocol, TypeVar

from auctune.domain import InputError
from auctune.service.jobs.idempotency import IdempotencyKey, idempotency_record
from auctune.service.jobs.training import Training
from auctune.service.zones.change import Change
from auctune.service.zones.clock import SlotClock
from auctune.service.zones.event import Kind, ZoneEvent
from auctune.service.zones.job_row import JobRow
from auctune.service.zones.received import Received
from auctune.service.zones.recorder import Recorder


class Trains(Protocol):
    """An admitted job."""

    training: Training


class Asks(Protocol):
    """What a zone decides on."""

    @property
    def job(self) -> str:
        """Id of the job that it becomes."""
        ...

    @property
    def owner(self) -> str:
        """User id."""
        ...


J_co = TypeVar("J_co", bound=Trains, covariant=True)


class NotedState(Protocol[J_co]):
    """A fold over a zone's events, as far as zones of all kinds know it."""

    @property
    def received(self) -> Mapping[str, Received]:
        """Jobs that were received and not decided on, by id."""
        ...

    @property
    def jobs(self) -> Mapping[str, J_co]:
        """Admitted jobs that are not over, by id."""
        ...

    def apply(self, event: ZoneEvent) -> Change:
        """Take over what happened."""
        ...


J = TypeVar("J", bound=Trains)
B = TypeVar("B", bound=Asks)


class NotingZone(ABC, Generic[J, B]):
    """One zone, with what it has noted and nobody has taken yet.

    Args:
        name: of the zone.
        clock: its slots.
        state: as it stands.
        recorder: hands out numbers of events.
    """

    def __init__(
        self, name: str, clock: SlotClock, state: NotedState[J], recorder: Recorder
    ) -> None:
        self.name = name
        self.clock = clock
        self._state = state
        self._writer = recorder
        self._events: list[tuple[ZoneEvent, Change]] = []
        self._has_unrecorded_change = False

    @property
    @abstractmethod
    def event_slot(self) -> int:
        """The slot in which what happens now is booked."""

    @abstractmethod
    def begin_slots(self) -> None:
        """Begin the current slot, if it has not begun."""

    @abstractmethod
    def decide(self, bid: B) -> JobRow:
        """Decide on a bid, at once and for good; the job as it stands then.

        Raises:
            InputError: if it is no bid that this zone can decide on; nothing has happened then.
        """

    @abstractmethod
    def pause(self, job: str) -> None:
        """Have a job wait until it is resumed.

        Raises:
            InputError: if it is over, or paused already.
        """

    @abstractmethod
    def resume(self, job: str) -> bool:
        """Have a paused job go on; whether that is possible now.

        Raises:
            InputError: if it is over, or not paused.
        """

    def release_capacity(self, job: J) -> None:
        """A job is about to end early: give back what it has coming, if no event says so."""

    @property
    def has_unrecorded_change(self) -> bool:
        """Whether it knows of something that is on no record: a command broke off."""
        return self._has_unrecorded_change

    @contextmanager
    def atomic(self) -> Iterator[None]:
        """A block whose events are all on record, or none."""
        self._has_unrecorded_change = True
        yield
        self._has_unrecorded_change = False

    def pop_events(self) -> list[tuple[ZoneEvent, Change]]:
        """What happened since the last call."""
        happened, self._events = self._events, []
        return happened

    def record(self, kind: str, job: str | None, body: dict[str, Any]) -> ZoneEvent:
        """Note that something happened, now, and take it over into the state."""
        seq, slot = self._writer.next_seq(), self.event_slot
        event = ZoneEvent(seq, self.name, slot, self.clock.now(), kind, job, body)
        self._events.append((event, self._state.apply(event)))
        return event

    @property
    def pending_jobs(self) -> Mapping[str, Received]:
        """Jobs that were received and not decided on, by id."""
        return self._state.received

    @property
    def admitted_jobs(self) -> Mapping[str, J]:
        """Admitted jobs that are not over, by id."""
        return self._state.jobs

    def uses_file(self, file: str) -> bool:
        """Whether a job that is not over needs a file."""
        asked = [one.training for one in self.pending_jobs.values()]
        asked += [job.training for job in self.admitted_jobs.values()]
        return any(file in (one.data, one.validation) for one in asked)

    def receive(
        self,
        job: str,
        owner: str,
        request: dict[str, Any],
        training: Training,
        reply: IdempotencyKey | None,
    ) -> JobRow:
        """Note a job whose data are still being looked at."""
        self.begin_slots()
        body = {"owner": owner, "request": request, "training": training.to_record()}
        self.record(Kind.RECEIVED, job, {**body, "reply": idempotency_record(reply)})
        return self._latest_row()

    def decide_received(self, bid: B) -> JobRow | None:
        """Decide on a job that was received; none if it was cancelled or decided on meanwhile.

        Raises:
            InputError: as `decide`.
        """
        return self.decide(bid) if bid.job in self.pending_jobs else None

    def cancel(self, job: str) -> bool:
        """End a job for its owner; what is to come is free again. Whether it was open."""
        self.begin_slots()
        if job in self.admitted_jobs:
            self.release_capacity(self.admitted_jobs[job])
        elif job not in self.pending_jobs:
            return False
        self.record(Kind.CANCELLED, job, {})
        return True

    def settle(self, owner: str) -> None:
        """Write what is still to come of an owner's jobs that are over: in most kinds, nothing."""

    def reject_pending(self, job: str, error: InputError) -> None:
        """A received job cannot be decided on: its data or its terms are wrong."""
        if job in self.pending_jobs:
            self.fail(job, "invalid_request", str(error), error.place, refund=False)

    def fail(
        self, job: str, code: str, message: str, param: str | None, *, refund: bool = True
    ) -> None:
        """End a job that cannot be done."""
        body = {"code": code, "message": message, "param": param, "refund": refund}
        self.record(Kind.FAILED, job, body)

    def finish(self, job: str, file: str) -> bool:
        """End a job whose result is a file; false if it is over already."""
        if job not in self.admitted_jobs:
            return False
        self.record(Kind.FINISHED, job, {"files": [file]})
        return True

    def abandon(self, job: str, why: str) -> None:
        """End a job, unless it is over, that the service cannot bring to its end."""
        if job in self.admitted_jobs:
            self.release_capacity(self.admitted_jobs[job])
            self.fail(job, "service_failed", why, None)

    def _latest_row(self) -> JobRow:
        return self._events[-1][1].rows[-1]
