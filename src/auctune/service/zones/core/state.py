"""State of a zone as far as all kinds share it: a fold over its events.

The live path and a restart apply events by the same functions. In memory are open jobs only; what
each event changes for readers is handed back, to be stored with it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, TypeVar

from auctune.service.ledger import Entry
from auctune.service.zones.core.events import EventType, ZoneEvent, job_of
from auctune.service.zones.core.job import PendingJob, pending_from_event
from auctune.service.zones.core.projection import Admitted, JobProjection
from auctune.service.zones.core.read_model import Effects, Status

J = TypeVar("J", bound=Admitted)


@dataclass(kw_only=True)
class ZoneState(ABC, Generic[J]):
    """Open jobs of a zone; a kind says how a job begins and ends, and what else it knows.

    Attributes:
        seq: of the newest event applied.
        received: jobs that wait for a decision, by id.
        jobs: admitted jobs that are not over, by id.
    """

    seq: int = 0
    received: dict[str, PendingJob] = field(default_factory=dict)
    jobs: dict[str, J] = field(default_factory=dict)

    @property
    @abstractmethod
    def rows(self) -> JobProjection[J]:
        """Makes rows of its jobs."""

    @abstractmethod
    def admit(self, event: ZoneEvent, asked: PendingJob) -> J:
        """A job that an event admits.

        Args:
            event: the decision.
            asked: what its owner asked for, and its place in lists.
        """

    @abstractmethod
    def admission_entries(self, job: J) -> tuple[Entry, ...]:
        """What the ledger says of a job that is admitted now."""

    @abstractmethod
    def settlement_entries(self, job: J, *, refunded: bool) -> tuple[Entry, ...]:
        """What the ledger says of a job that is over now."""

    def _received(self, event: ZoneEvent) -> Effects:
        job = pending_from_event(event)
        self.received[job.id] = job
        return Effects((self.rows.received(event, job),))

    def _decided(self, event: ZoneEvent) -> Effects:
        asked = pending_from_event(event)
        waiting = self.received.pop(asked.id, None)
        if waiting is not None:
            asked = replace(asked, seq=waiting.seq, created_at=waiting.created_at)
        if not event.body["decision"]["admitted"]:
            return Effects((self.rows.rejected(event, asked),))
        job = self.admit(event, asked)
        self.jobs[job.id] = job
        return Effects((self.rows.open(event, job),), self.admission_entries(job))

    def _noted(self, event: ZoneEvent) -> Effects:
        job = self.jobs.get(job_of(event))
        if job is None:
            return Effects()
        job.notes.append(event.body["text"])
        return Effects((self.rows.open(event, job),))

    def _cancelled(self, event: ZoneEvent) -> Effects:
        return self._close(event, Status.CANCELLED, refunded=False)

    def _finished(self, event: ZoneEvent) -> Effects:
        return self._close(event, Status.SUCCEEDED, refunded=False)

    def _failed(self, event: ZoneEvent) -> Effects:
        return self._close(event, Status.FAILED, refunded=event.body["refund"])

    def _close(self, event: ZoneEvent, status: Status, *, refunded: bool) -> Effects:
        waiting = self.received.pop(job_of(event), None)
        if waiting is not None:
            return Effects((self.rows.withdrawn(event, waiting, status),))
        job = self.jobs.pop(job_of(event))
        entries = self.settlement_entries(job, refunded=refunded)
        return Effects((self.rows.closed(event, job, status, refunded=refunded),), entries)


JOB_REDUCERS: Mapping[str, Callable[[ZoneState[Any], ZoneEvent], Effects]] = {
    EventType.RECEIVED: ZoneState._received,
    EventType.DECIDED: ZoneState._decided,
    EventType.JOB_NOTED: ZoneState._noted,
    EventType.CANCELLED: ZoneState._cancelled,
    EventType.FINISHED: ZoneState._finished,
    EventType.FAILED: ZoneState._failed,
}
"""What events that zones of all kinds know do to a state."""


# The fold of events into state, the same live and after a restart.


class Foldable(Protocol):
    """What a zone has come to.

    Attributes:
        seq: of the newest event applied.
    """

    seq: int


S = TypeVar("S", bound=Foldable)


def reduce(
    handlers: Mapping[str, Callable[[S, ZoneEvent], Effects]], state: S, event: ZoneEvent
) -> Effects:
    """Take over what happened; what it changes outside.

    Args:
        handlers: by kind of event what it does to a state; others do nothing.
        state: changed.
        event: newer than all that the state knows.
    """
    state.seq = event.seq
    handler = handlers.get(event.kind)
    return Effects() if handler is None else handler(state, event)
