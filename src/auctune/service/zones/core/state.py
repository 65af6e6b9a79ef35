"""State of a zone: a fold over its events, the same live, after a restart and in a replay.

In memory are open jobs only. What an event changes outside of the state (rows of jobs, ledger
entries) is returned, and committed with the event.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import orjson
from pydantic import ValidationError

from auctune.domain import Money, read_snapshot
from auctune.domain.money import ZERO
from auctune.service.ledger import charge_usage
from auctune.service.storage.event_log import ZoneEvent, job_of
from auctune.service.storage.queries import Effects, Status
from auctune.service.storage.snapshots import SNAPSHOT_VERSION, upcast_snapshot
from auctune.service.zones.core.events import (
    EventData,
    JobCancelled,
    JobDecided,
    JobFailed,
    JobFinished,
    JobNoted,
    JobPaused,
    JobReceived,
    JobResumed,
    JobTrained,
    OutOfMemory,
    SlotStarted,
    StorageUsed,
    TokensUsed,
    adapter,
)
from auctune.service.zones.core.job import OpenJob, PendingJob, Phase, SlotJob
from auctune.service.zones.core.projection import JobProjection

J = TypeVar("J", bound=OpenJob)

Reducer = Callable[[Any, ZoneEvent, Any], Effects]
"""Applies an event to a state, given its data."""


def _pending(event: ZoneEvent, data: JobReceived | JobDecided) -> PendingJob:
    return PendingJob(
        id=job_of(event),
        seq=event.seq,
        owner=data.owner,
        created_at=event.at,
        request=data.request,
        training=data.training,
    )


@dataclass(kw_only=True)
class ZoneState(ABC, Generic[J]):
    """Open jobs of a zone. A snapshot of a zone is its state as pydantic serializes it.

    A kind of zone declares the type of `jobs` and its own fields, names the job that an event
    admits, and adds the reducers of its events.

    Attributes:
        seq: number of the newest event applied; 0 before the first.
        received: pending jobs, by id.
        jobs: admitted jobs that have not ended, by id.
        fractions: of money that the next answer of a model costs a user more; see `carried`.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}

    projection: ClassVar[JobProjection[Any]]
    _by_type: ClassVar[dict[str, tuple[type[EventData], Reducer]]]

    seq: int = 0
    received: dict[str, PendingJob] = field(default_factory=dict)
    jobs: dict[str, J] = field(default_factory=dict)
    fractions: dict[str, Money] = field(default_factory=dict)

    def __init_subclass__(cls) -> None:
        cls._by_type = {one.type: (one, reducer) for one, reducer in cls.reducers.items()}

    def decode(self, event: ZoneEvent) -> EventData | None:
        """Return the data of a recorded event, or None for a type that changes nothing."""
        found = self._by_type.get(event.type)
        return None if found is None else adapter(found[0]).validate_python(event.body)

    def evolve(self, event: ZoneEvent, data: EventData | None = None) -> Effects:
        """Apply an event that is newer than all that were applied; `data` is decoded by default."""
        self.seq = event.seq
        data = data or self.decode(event)
        if data is None:
            return Effects()
        effects = self._by_type[event.type][1](self, event, data)
        for changed in (event.job, *(row.id for row in effects.rows)):
            if changed in self.jobs:
                self.jobs[changed].last_event_seq = event.seq
        return effects

    def mechanism_events(self, event: ZoneEvent, data: EventData) -> Iterable[Any]:
        """Return what an event means to the mechanism; the state is as before the event."""
        return ()

    @abstractmethod
    def admit(self, event: ZoneEvent, data: Any, pending: PendingJob) -> J:
        """Return the job that a decision admits."""

    def show(self, event: ZoneEvent, job: J) -> Effects:
        """Return the effects of an event that changes an open job, and books nothing."""
        return Effects((self.projection.open(event, job),))

    def _unchanged(self, _event: ZoneEvent, _data: EventData) -> Effects:
        return Effects()

    def _received(self, event: ZoneEvent, data: JobReceived) -> Effects:
        job = _pending(event, data)
        self.received[job.id] = job
        return Effects((self.projection.received(event, job),))

    def _decided(self, event: ZoneEvent, data: JobDecided) -> Effects:
        pending = _pending(event, data)
        earlier = self.received.pop(pending.id, None)
        if earlier is not None:
            pending = replace(pending, seq=earlier.seq, created_at=earlier.created_at)
        if not data.is_admitted:
            return Effects((self.projection.rejected(event, pending, data),))
        job = self.admit(event, data, pending)
        self.jobs[job.id] = job
        return Effects((self.projection.open(event, job),), job.admission_entries())

    def _noted(self, event: ZoneEvent, data: JobNoted) -> Effects:
        job = None if event.job is None else self.jobs.get(event.job)
        if job is None:
            return Effects()
        job.notes.append(data.text)
        return self.show(event, job)

    def _out_of_memory(self, event: ZoneEvent, data: OutOfMemory) -> Effects:
        job: Any = self.jobs[job_of(event)]
        job.out_of_memory.append(data.slot)
        job.notes.append(data.text)
        return self.show(event, job)

    def carried(self, user: str, model: str) -> Money:
        """Return the fraction of money that a user's answers of a model have not paid yet."""
        return self.fractions.get(_fraction_key(user, model), ZERO)

    def _tokens_used(self, _event: ZoneEvent, data: TokensUsed) -> Effects:
        key = _fraction_key(data.user, data.model)
        self.fractions.pop(key, None)
        if data.carried:
            self.fractions[key] = data.carried
        return Effects(entries=charge_usage(data.user, data.amount))

    def _storage_used(self, _event: ZoneEvent, data: StorageUsed) -> Effects:
        return Effects(entries=charge_usage(data.user, data.amount))

    def _paused(self, event: ZoneEvent, _data: JobPaused) -> Effects:
        job = self.jobs[job_of(event)]
        job.phase = Phase.PAUSED
        return self.show(event, job)

    def _resumed(self, event: ZoneEvent, _data: JobResumed) -> Effects:
        job = self.jobs[job_of(event)]
        job.continue_phase(has_trained=bool(job.progress.rows))
        return self.show(event, job)

    def _cancelled(self, event: ZoneEvent, _data: JobCancelled) -> Effects:
        return self._end(event, Status.CANCELLED, refunded=False)

    def _finished(self, event: ZoneEvent, _data: JobFinished) -> Effects:
        return self._end(event, Status.SUCCEEDED, refunded=False)

    def _failed(self, event: ZoneEvent, data: JobFailed) -> Effects:
        return self._end(event, Status.FAILED, refunded=data.refund)

    def _end(self, event: ZoneEvent, status: Status, *, refunded: bool) -> Effects:
        pending = self.received.pop(job_of(event), None)
        if pending is not None:
            return Effects((self.projection.withdrawn(event, pending, status),))
        job = self.jobs.pop(job_of(event))
        entries = job.settlement_entries(refunded=refunded)
        return Effects((self.projection.closed(event, job, status, refunded=refunded),), entries)

    reducers: ClassVar[Mapping[type[EventData], Reducer]] = {
        JobReceived: _received,
        JobPaused: _paused,
        JobResumed: _resumed,
        JobNoted: _noted,
        OutOfMemory: _out_of_memory,
        TokensUsed: _tokens_used,
        StorageUsed: _storage_used,
        JobCancelled: _cancelled,
        JobFinished: _finished,
        JobFailed: _failed,
    }


@dataclass(kw_only=True)
class SlottedState(ZoneState[J]):
    """State of a zone with slots; `slot` is the newest one that began, -1 before the first."""

    slot: int = -1

    def _began(self, _event: ZoneEvent, data: SlotStarted) -> Effects:
        self.slot = data.slot
        return Effects()

    reducers: ClassVar[Mapping[type[EventData], Reducer]] = {
        **ZoneState.reducers,
        SlotStarted: _began,
    }


SJ = TypeVar("SJ", bound=SlotJob)


@dataclass(kw_only=True)
class SlotJobState(SlottedState[SJ]):
    """State of a zone whose jobs train in slots on nodes; see `SlotScheduler`."""

    def _trained(self, event: ZoneEvent, data: JobTrained) -> Effects:
        job = self.jobs[job_of(event)]
        job.progress = job.progress.after(data.result)
        job.last_reported_slot = data.slot
        job.out_of_memory.clear()
        if data.result.state == "done":
            job.phase = Phase.TRAINED
        elif job.phase is Phase.PLANNED:
            job.phase = Phase.TRAINING
        return self.show(event, job)

    reducers: ClassVar[Mapping[type[EventData], Reducer]] = {
        **SlottedState.reducers,
        JobTrained: _trained,
    }


S = TypeVar("S", bound=ZoneState[Any])
M = TypeVar("M")


class ZoneModel(Generic[S, M]):
    """State of a zone and the mechanism that decides by it, folded from the same events.

    Kinds that decide by the state alone have no mechanism.

    Attributes:
        num_applied: events that were applied since the snapshot that it was restored from.
    """

    def __init__(self, state: S, mechanism: M) -> None:
        self.state = state
        self.mechanism = mechanism
        self.num_applied = 0

    @property
    def seq(self) -> int:
        return self.state.seq

    def apply(self, event: ZoneEvent, data: EventData | None = None) -> Effects:
        """Apply one event to mechanism and state; its data are decoded unless they are given."""
        data = data or self.state.decode(event)
        if data is not None:
            mechanism: Any = self.mechanism
            for change in self.state.mechanism_events(event, data):
                mechanism.apply(change)
        self.num_applied += 1
        return self.state.evolve(event, data)

    def save(self) -> dict[str, Any]:
        """Return a snapshot, for `write_snapshot`."""
        return SnapshotWriter().write(self)

    def restore(self, body: bytes) -> None:
        """Restore a snapshot into an empty model.

        Raises:
            ValueError: if it cannot be read, or another release wrote it.
        """
        saved = read_snapshot(body)
        record = orjson.loads(saved["state"].tobytes())
        record = upcast_snapshot({**record, "mechanism": saved.get("mechanism")})
        of_mechanism = record.pop("mechanism")
        mechanism: Any = self.mechanism
        if mechanism is not None:
            mechanism.load(of_mechanism)
        try:
            self.state = adapter(type(self.state)).validate_python(record)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            raise ValueError(f"snapshot: {place}: {first['msg']}") from None


def _fraction_key(user: str, model: str) -> str:
    # Snapshots hold no suffix of a model, which its user has chosen.
    return hashlib.sha256(f"{user} {model}".encode()).hexdigest()[:16]


class SnapshotWriter:
    """Serializes a zone's model; jobs without new events are not serialized again."""

    # Jobs serialized by one command of the actor: some milliseconds.
    _BATCH = 100

    def __init__(self) -> None:
        # By job: the newest event about it, and the job as JSON.
        self._jobs: dict[str, tuple[int, bytes]] = {}

    def prepare(self, state: ZoneState[Any], limit: int = _BATCH) -> bool:
        """Serialize up to `limit` changed jobs ahead of `write`; return whether all are."""
        for job in state.jobs.values():
            if self._is_changed(job):
                if limit == 0:
                    return False
                self._jobs[job.id] = self._dump(job)
                limit -= 1
        return True

    def write(self, model: ZoneModel[Any, Any]) -> dict[str, Any]:
        """Return the snapshot of a model, for `write_snapshot`; later changes leave it as it is."""
        state: ZoneState[Any] = model.state
        self._jobs = {
            job.id: self._dump(job) if self._is_changed(job) else self._jobs[job.id]
            for job in state.jobs.values()
        }
        record = adapter(type(state)).dump_python(state, mode="json", exclude={"jobs"})
        record["version"] = SNAPSHOT_VERSION
        record["jobs"] = {name: orjson.Fragment(body) for name, (_, body) in self._jobs.items()}
        # As an array of bytes, so that no name in it is read as a key of the snapshot.
        saved = {"state": np.frombuffer(orjson.dumps(record), dtype=np.uint8)}
        if model.mechanism is not None:
            saved["mechanism"] = model.mechanism.save()
        return saved

    def _is_changed(self, job: OpenJob) -> bool:
        written = self._jobs.get(job.id)
        return written is None or written[0] != job.last_event_seq

    @staticmethod
    def _dump(job: OpenJob) -> tuple[int, bytes]:
        return job.last_event_seq, adapter(type(job)).dump_json(job)
