"""The write side of a zone: commands record events, which change its state."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from auctune.domain import InputError, Money, round_money
from auctune.service.jobs.idempotency import IdempotencyKey, idempotency_record
from auctune.service.jobs.training import Training
from auctune.service.zones.core.clock import SlotClock
from auctune.service.zones.core.events import EventType, ZoneEvent
from auctune.service.zones.core.job import PendingJob, Phase
from auctune.service.zones.core.read_model import Effects, JobReadModel

OnDone = Callable[[Exception | None], None]
"""Called once events are on disk, or with what went wrong."""


class EventWriter(Protocol):
    """The log, as a zone sees it."""

    def next_seq(self) -> int:
        """The next number of the log."""
        ...

    def record(self, happened: Sequence[tuple[ZoneEvent, Effects]], done: OnDone) -> None:
        """Write events and what they change, all or nothing, in the order of calls; then say so."""
        ...


# A zone of any kind, as its actor runs it.


class AnyZone(Protocol):
    """One zone, at its newest slot. Each method leaves it whole, and notes what happened."""

    @property
    def name(self) -> str:
        """Of the zone."""
        ...

    @property
    def clock(self) -> SlotClock:
        """Its slots."""
        ...

    def pop_events(self) -> list[tuple[ZoneEvent, Effects]]:
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
    ) -> JobReadModel:
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


def is_open(zone: AnyZone, job: str) -> bool:
    """Whether a job is not over: it waits for a decision, or goes on."""
    return job in zone.pending_jobs or job in zone.admitted_jobs


# Recording: each event is applied to the state and kept for the log.
#
# Zones of all kinds receive, refuse, cancel and fail jobs in the same words. A kind decides on
# bids, says in which slot its events are booked, and begins its slots.


class Trains(Protocol):
    """An admitted job."""

    training: Training


def unlimited() -> None:
    """Return None: the budget of a bid whose owner has none."""
    return


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
    def received(self) -> Mapping[str, PendingJob]:
        """Jobs that were received and not decided on, by id."""
        ...

    @property
    def jobs(self) -> Mapping[str, J_co]:
        """Admitted jobs that are not over, by id."""
        ...

    def apply(self, event: ZoneEvent) -> Effects:
        """Take over what happened."""
        ...


J = TypeVar("J", bound=Trains)
B = TypeVar("B", bound=Asks)


class Zone(ABC, Generic[J, B]):
    """One zone, with what it has noted and nobody has taken yet.

    Args:
        name: of the zone.
        clock: its slots.
        state: as it stands.
        recorder: hands out numbers of events.
    """

    def __init__(
        self, name: str, clock: SlotClock, state: NotedState[J], recorder: EventWriter
    ) -> None:
        self.name = name
        self.clock = clock
        self._state = state
        self._writer = recorder
        self._events: list[tuple[ZoneEvent, Effects]] = []
        self._has_unrecorded_change = False

    @property
    @abstractmethod
    def event_slot(self) -> int:
        """The slot in which what happens now is booked."""

    @abstractmethod
    def begin_slots(self) -> None:
        """Begin the current slot, if it has not begun."""

    @abstractmethod
    def decide(self, bid: B) -> JobReadModel:
        """Decide on a bid, at once and for good; the job as it stands then.

        Raises:
            InputError: if it is no bid that this zone can decide on; nothing has happened then.
        """

    @abstractmethod
    def preview(self, bid: B) -> JobReadModel:
        """Return the job as `decide` would leave it, without recording anything.

        Raises:
            InputError: as `decide`.
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

    def pop_events(self) -> list[tuple[ZoneEvent, Effects]]:
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
    def pending_jobs(self) -> Mapping[str, PendingJob]:
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
    ) -> JobReadModel:
        """Note a job whose data are still being looked at."""
        self.begin_slots()
        body = {"owner": owner, "request": request, "training": training.to_record()}
        self.record(EventType.RECEIVED, job, {**body, "reply": idempotency_record(reply)})
        return self._latest_row()

    def decide_received(self, bid: B) -> JobReadModel | None:
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
        self.record(EventType.CANCELLED, job, {})
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
        self.record(EventType.FAILED, job, body)

    def finish(self, job: str, file: str) -> bool:
        """End a job whose result is a file; false if it is over already."""
        if job not in self.admitted_jobs:
            return False
        self.record(EventType.FINISHED, job, {"files": [file]})
        return True

    def abandon(self, job: str, why: str) -> None:
        """End a job, unless it is over, that the service cannot bring to its end."""
        if job in self.admitted_jobs:
            self.release_capacity(self.admitted_jobs[job])
            self.fail(job, "service_failed", why, None)

    def _latest_row(self) -> JobReadModel:
        return self._events[-1][1].rows[-1]


# Zones whose time advances by slots: events are booked in the newest begun slot.
#
# Its jobs are paused and resumed in the same words, whatever they have in their slots.

MAX_OUT_OF_MEMORY = 2
"""Slots in a row that a job may lose to too little memory before it fails."""


class Slotted(Protocol):
    """A state that knows slots."""

    @property
    def slot(self) -> int:
        """The newest slot that began; -1 before the first."""
        ...


class Phased(Trains, Protocol):
    """An admitted job."""

    @property
    def phase(self) -> Phase:
        """Where it stands."""
        ...


class HoldsSlots(Phased, Protocol):
    """An admitted job that paid for its slots ahead."""

    @property
    def out_of_memory(self) -> Sequence[int]:
        """Slots lost to too little memory since the job trained last."""
        ...


@dataclass(frozen=True, slots=True)
class GivenUp:
    """Slots that a paused job gave up. Its new ones may be worth as much, or the pause would be a
    free option on dearer slots.

    Attributes:
        worth: what they would have cost at the prices of that moment, not the job's payment.
        work: what they were to train, in samples or chunks, > 0.
    """

    worth: Money
    work: float

    def check(self, price: Money, work_left: float) -> None:
        """That new slots are worth no more.

        Args:
            price: of the new slots, now.
            work_left: that they are to train. It is more than was given up if the slot in which
                the job was paused failed: the market makes that good.

        Raises:
            InputError: if they are worth more.
        """
        most = round_money(float(self.worth) * max(1.0, work_left / self.work))
        if price > most:
            raise InputError(
                "id",
                f"its new slots would cost {price} now, and the ones it gave up were worth {most}",
                f"slots for at most {most}; it stays paused: try again when slots are cheaper",
            )

    def to_record(self) -> dict[str, Any]:
        """As plain values."""
        return {"worth": str(self.worth), "work": self.work}

    @classmethod
    def from_record(cls, record: dict[str, Any] | None) -> "GivenUp | None":
        """What `to_record` gave; `None` for `None`."""
        return None if record is None else cls(Money(record["worth"]), record["work"])


P = TypeVar("P", bound=Phased)
H = TypeVar("H", bound=HoldsSlots)


class SlottedZone(Zone[P, B]):
    """One zone, at its newest slot.

    Attributes:
        state: as it stands.
    """

    state: Slotted

    @abstractmethod
    def begin_slot(self, slot: int) -> None:
        """Begin a slot; those that passed by in which nobody was there to decide are left out."""

    @property
    def event_slot(self) -> int:
        """The newest that began."""
        return max(0, self.state.slot)

    def begin_slots(self) -> None:
        """Begin the current slot, if it has not begun."""
        now = self.clock.slot()
        if now > self.state.slot:
            self.begin_slot(now)

    def has_slot_before(self, deadline: float) -> bool:
        """Whether a slot is still to begin that ends by a deadline, in unix time."""
        self.begin_slots()
        return self.clock.last_slot_by(deadline) > self.state.slot

    def pausable_job(self, name: str) -> P:
        """A job that can be paused.

        Raises:
            InputError: if it is over, or trained, or paused already.
        """
        job = self._running(name)
        if job.phase is Phase.PAUSED:
            raise InputError("id", f"{name} is paused already", "a job that is not paused")
        if job.phase is Phase.TRAINED:
            raise InputError("id", f"{name} is trained already", "a job that is to train")
        return job

    def resumable_job(self, name: str) -> P:
        """A job that can be resumed.

        Raises:
            InputError: if it is over, or not paused.
        """
        job = self._running(name)
        if job.phase is not Phase.PAUSED:
            raise InputError("id", f"{name} is not paused", "a paused job")
        return job

    def _running(self, name: str) -> P:
        job = self.admitted_jobs.get(name)
        if job is None:
            raise InputError("id", f"{name} is not running", "an admitted job that is not over")
        return job


def lose_to_memory(zone: SlottedZone[H, B], name: str, slot: int, why: str, remedy: str) -> bool:
    """Record that memory ran out in a job's slot; return whether the job has failed for it.

    It fails, and is refunded, once this has happened in `MAX_OUT_OF_MEMORY` slots in a row: a
    job that never fits would hold slots until its deadline, and pay for none of them.

    Args:
        zone: whose job it is.
        name: of a job that is not over.
        slot: counts once, however often it was tried.
        why: for its owner.
        remedy: what its owner may change.
    """
    job = zone.admitted_jobs[name]
    if slot not in job.out_of_memory:
        zone.record(EventType.OUT_OF_MEMORY, name, {"slot": slot, "text": why})
    lost = len(job.out_of_memory)
    if lost < MAX_OUT_OF_MEMORY:
        return False
    zone.release_capacity(job)
    message = f"there was too little memory for it in {lost} slots in a row: {why}; {remedy}"
    zone.fail(name, "out_of_memory", message, None)
    return True
