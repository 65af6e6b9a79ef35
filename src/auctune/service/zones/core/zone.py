"""Write side of a zone: commands that record events. Only the zone's actor calls them."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Generic, Protocol, TypeVar

from auctune.domain import InputError, Money
from auctune.engine.unix_time import SlotClock
from auctune.service.accounts.registry import Principal
from auctune.service.jobs.request import IdempotencyKey
from auctune.service.jobs.training import Training, ZoneBid
from auctune.service.storage.event_log import EventType, ZoneEvent
from auctune.service.storage.queries import Effects, JobReadModel
from auctune.service.zones.core.events import (
    EpochCheckpoint,
    EventData,
    JobCancelled,
    JobDecided,
    JobFailed,
    JobFinished,
    JobNoted,
    JobPaused,
    JobReceived,
    JobResumed,
    OutOfMemory,
    StorageUsed,
    TokensUsed,
    token_charge,
)
from auctune.service.zones.core.job import OpenJob, PendingJob, Phase, PrepaidJob
from auctune.service.zones.core.state import ZoneModel

OnDone = Callable[[Exception | None], None]
"""Called when events are committed, or with the error."""


class EventWriter(Protocol):
    """The event log, as zones write it."""

    def next_seq(self) -> int:
        """Return the next number of the log."""
        ...

    def record(self, happened: Sequence[tuple[ZoneEvent, Effects]], done: OnDone) -> None:
        """Commit events and their effects, all or nothing, in the order of calls."""
        ...


J = TypeVar("J", bound=OpenJob)
B = TypeVar("B", bound=ZoneBid)


class Zone(ABC, Generic[J, B]):
    """One zone. Commands leave it consistent; the actor commits the events that they record."""

    def __init__(
        self, name: str, clock: SlotClock, model: ZoneModel[Any, Any], writer: EventWriter
    ) -> None:
        self.name = name
        self.clock = clock
        self.model = model
        self._writer = writer
        self._events: list[tuple[ZoneEvent, Effects]] = []
        self._has_unrecorded_change = False

    @property
    @abstractmethod
    def event_slot(self) -> int:
        """The slot that events are recorded in now."""

    @abstractmethod
    def begin_slots(self) -> None:
        """Begin the current slot, if it has not begun."""

    @abstractmethod
    def _decide(self, bid: B) -> JobDecided:
        """Return the decision on a bid, without booking anything."""

    def decide(self, bid: B) -> JobReadModel:
        """Decide on a bid; the decision is final. After an InputError nothing is recorded."""
        self.begin_slots()
        return self._decided(bid, self._decide(bid))

    def preview(self, bid: B) -> JobReadModel:
        """Return the job as `decide` would return it, without recording it."""
        self.begin_slots()
        projection, data = self.model.state.projection, self._decide(bid)
        row: JobReadModel = projection.preview(self.name, self.clock.now(), bid.job, data)
        return row

    def _decided(self, bid: B, data: JobDecided) -> JobReadModel:
        self.record(data, bid.job)
        return self._latest_row()

    def release_capacity(self, job: J) -> None:
        """Release the capacity still reserved for a job that ends early."""

    @property
    def has_unrecorded_change(self) -> bool:
        """Return whether a command failed between a change in memory and its event."""
        return self._has_unrecorded_change

    @contextmanager
    def atomic(self) -> Iterator[None]:
        """Record all events of a block, or fail the zone permanently."""
        self._has_unrecorded_change = True
        yield
        self._has_unrecorded_change = False

    def pop_events(self) -> list[tuple[ZoneEvent, Effects]]:
        events, self._events = self._events, []
        return events

    def record_created(self, settings: Mapping[str, Any]) -> None:
        event = self._event(EventType.ZONE_CREATED, None, dict(settings))
        self._events.append((event, self.model.apply(event)))

    def record(self, data: EventData, job: str | None = None) -> None:
        """Record an event about a job, now, and apply it."""
        event = self._event(data.type, job, data.body())
        self._events.append((event, self._apply(event, data)))

    def _event(self, type_: str, job: str | None, body: dict[str, Any]) -> ZoneEvent:
        seq, slot = self._writer.next_seq(), self.event_slot
        return ZoneEvent(seq, self.name, slot, self.clock.now(), str(type_), job, body)

    def _apply(self, event: ZoneEvent, data: EventData) -> Effects:
        return self.model.apply(event, data)

    @property
    def pending_jobs(self) -> Mapping[str, PendingJob]:
        """Jobs that are not decided on, by id."""
        pending: Mapping[str, PendingJob] = self.model.state.received
        return pending

    @property
    def admitted_jobs(self) -> Mapping[str, J]:
        """Admitted jobs that have not ended, by id."""
        jobs: Mapping[str, J] = self.model.state.jobs
        return jobs

    def is_open(self, job: str) -> bool:
        return job in self.pending_jobs or job in self.admitted_jobs

    def files_in_use(self) -> set[str]:
        """Return the ids of the files that jobs which have not ended need."""
        jobs: list[PendingJob] = [*self.pending_jobs.values(), *self.admitted_jobs.values()]
        trainings = [job.training for job in jobs]
        needed = {file for one in trainings for file in (one.data, one.validation, one.start_from)}
        return {file for file in needed if file is not None}

    def receive(
        self,
        job: str,
        owner: str,
        request: dict[str, Any],
        training: Training,
        key: IdempotencyKey | None,
    ) -> JobReadModel:
        """Record a job as pending: its data are still being inspected."""
        self.begin_slots()
        self.record(
            JobReceived(owner=owner, request=request, training=training, idempotency_key=key), job
        )
        return self._latest_row()

    def decide_received(self, bid: B) -> JobReadModel | None:
        """Decide on a pending job; None if it was cancelled or decided on meanwhile."""
        return self.decide(bid) if bid.job in self.pending_jobs else None

    def pausable_job(self, name: str) -> J:
        """Return a job that can be paused: it has not ended, is not trained, and is not paused."""
        job = self._admitted(name)
        if job.phase is Phase.PAUSED:
            raise InputError("id", f"{name} is paused already", "a job that is not paused")
        if job.phase is Phase.TRAINED:
            raise InputError("id", f"the training of {name} is complete", "a job that still trains")
        return job

    def resumable_job(self, name: str) -> J:
        job = self._admitted(name)
        if job.phase is not Phase.PAUSED:
            raise InputError("id", f"{name} is not paused", "a paused job")
        return job

    def _admitted(self, name: str) -> J:
        job = self.admitted_jobs.get(name)
        if job is None:
            raise InputError("id", f"{name} is not running", "an admitted job that is not over")
        return job

    def pause(self, job: str) -> None:
        """Pause a job: nothing is reserved or run for it until it is resumed."""
        self.begin_slots()
        self.pausable_job(job)
        self.record(JobPaused(), job)

    def resume(self, job: str) -> bool:
        """Resume a paused job; return whether that is possible now."""
        self.begin_slots()
        self.resumable_job(job)
        self.record(JobResumed(), job)
        return True

    def cancel(self, job: str) -> bool:
        """End a job for its owner and release its capacity; return whether it was open."""
        self.begin_slots()
        if job in self.admitted_jobs:
            self.release_capacity(self.admitted_jobs[job])
        elif job not in self.pending_jobs:
            return False
        self.record(JobCancelled(), job)
        return True

    def settle(self, owner: str) -> None:
        """Record what may still come of an owner's ended jobs; nothing comes after it."""

    def reject_pending(self, job: str, error: InputError) -> None:
        """Fail a pending job that cannot be decided on: its data or request are wrong."""
        if job in self.pending_jobs:
            self.fail(job, "invalid_request", str(error), error.place, refund=False)

    def fail(
        self, job: str, code: str, message: str, param: str | None, *, refund: bool = True
    ) -> None:
        """End a job that cannot be finished."""
        self.record(JobFailed(code=code, message=message, param=param, refund=refund), job)

    def note(self, job: str, text: str) -> None:
        """Add a note for the owner of an admitted job, once."""
        if text not in self.admitted_jobs[job].notes:
            self.record(JobNoted(text=text), job)

    def finish(
        self, job: str, files: list[str], checkpoints: Sequence[EpochCheckpoint] = ()
    ) -> bool:
        """End a trained job with the ids of its result files; return False if it has ended."""
        if job not in self.admitted_jobs:
            return False
        self.record(JobFinished(files=files, checkpoints=list(checkpoints)), job)
        return True

    def abandon(self, job: str, why: str) -> None:
        """Fail a job that the service cannot finish, unless it has ended."""
        if job in self.admitted_jobs:
            self.release_capacity(self.admitted_jobs[job])
            self.fail(job, "service_failed", why, None)

    def charge_tokens(
        self, who: Principal, model: str, tokens: tuple[int, int], price: Money
    ) -> None:
        """Charge a user for answers of a model: tokens of prompts and of answers.

        What is less than the smallest amount is charged with a later answer.

        Args:
            price: of 1,000 tokens.
        """
        carried = self.model.state.carried(who.user, model)
        amount, carried = token_charge(sum(tokens), price, carried)
        data = TokensUsed(
            user=who.user,
            key=who.key,
            team=who.team,
            model=model,
            prompt_tokens=tokens[0],
            completion_tokens=tokens[1],
            price=price,
            amount=amount,
            carried=carried,
        )
        self.record(data)

    def charge_storage(self, charges: Iterable[StorageUsed]) -> None:
        """Charge users for their stored files."""
        for one in charges:
            self.record(one)

    def _latest_row(self) -> JobReadModel:
        return self._events[-1][1].rows[-1]


AnyZone = Zone[Any, Any]
"""A zone of any kind."""


class SlottedZone(Zone[J, B]):
    """A zone whose events belong to the newest slot that began: its state has a `slot`."""

    @abstractmethod
    def begin_slot(self, slot: int) -> None:
        """Begin a slot. Slots that passed while the service was down are skipped."""

    @property
    def event_slot(self) -> int:
        slot: int = self.model.state.slot
        return max(0, slot)

    def begin_slots(self) -> None:
        now = self.clock.slot()
        if now > self.model.state.slot:
            self.begin_slot(now)

    def has_slot_before(self, deadline: float) -> bool:
        """Return whether a slot is still to begin that ends by a deadline, in unix time."""
        self.begin_slots()
        return bool(self.clock.last_slot_by(deadline) > self.model.state.slot)


MAX_OUT_OF_MEMORY = 2
"""Slots in a row that a job may lose to too little memory before it fails."""

P = TypeVar("P", bound=PrepaidJob)


def lose_to_memory(zone: SlottedZone[P, B], name: str, slot: int, why: str, remedy: str) -> bool:
    """Record that memory ran out in a job's slot; return whether the job has failed for it.

    It fails, and is refunded, once this has happened in `MAX_OUT_OF_MEMORY` slots in a row: a
    job that never fits would hold slots until its deadline, and pay for none of them. A slot counts
    once, however often it was tried. `remedy` is what the owner may change.
    """
    job = zone.admitted_jobs[name]
    if slot not in job.out_of_memory:
        zone.record(OutOfMemory(slot=slot, text=why), name)
    lost = len(job.out_of_memory)
    if lost < MAX_OUT_OF_MEMORY:
        return False
    zone.release_capacity(job)
    message = f"it ran out of memory in {lost} consecutive slots: {why}; {remedy}"
    zone.fail(name, "out_of_memory", message, None)
    return True
