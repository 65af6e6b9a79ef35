"""What a zone has come to, as far as zones of all kinds know it: a fold over its events.

The live path and a restart apply events by the same functions. In memory are open jobs only; what
each event changes for readers is handed back, to be stored with it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from auctune.service.ledger import Entry
from auctune.service.zones.change import Change
from auctune.service.zones.event import Kind, ZoneEvent, job_of
from auctune.service.zones.job_row import Status
from auctune.service.zones.job_rows import Admitted, JobRows
from auctune.service.zones.received import Received, received_of

J = TypeVar("J", bound=Admitted)


@dataclass(kw_only=True)
class JobsState(ABC, Generic[J]):
    """Open jobs of a zone; a kind says how a job begins and ends, and what else it knows.

    Attributes:
        seq: of the newest event applied.
        received: jobs that wait for a decision, by id.
        jobs: admitted jobs that are not over, by id.
    """

    seq: int = 0
    received: dict[str, Received] = field(default_factory=dict)
    jobs: dict[str, J] = field(default_factory=dict)

    @property
    @abstractmethod
    def rows(self) -> JobRows[J]:
        """Makes rows of its jobs."""

    @abstractmethod
    def admit(self, event: ZoneEvent, asked: Received) -> J:
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

    def _received(self, event: ZoneEvent) -> Change:
        job = received_of(event)
        self.received[job.id] = job
        return Change((self.rows.received(event, job),))

    def _decided(self, event: ZoneEvent) -> Change:
        asked = received_of(event)
        waiting = self.received.pop(asked.id, None)
        if waiting is not None:
            asked = replace(asked, seq=waiting.seq, created_at=waiting.created_at)
        if not event.body["decision"]["admitted"]:
            return Change((self.rows.rejected(event, asked),))
        job = self.admit(event, asked)
        self.jobs[job.id] = job
        return Change((self.rows.open(event, job),), self.admission_entries(job))

    def _noted(self, event: ZoneEvent) -> Change:
        job = self.jobs.get(job_of(event))
        if job is None:
            return Change()
        job.notes.append(event.body["text"])
        return Change((self.rows.open(event, job),))

    def _cancelled(self, event: ZoneEvent) -> Change:
        return self._close(event, Status.CANCELLED, refunded=False)

    def _finished(self, event: ZoneEvent) -> Change:
        return self._close(event, Status.SUCCEEDED, refunded=False)

    def _failed(self, event: ZoneEvent) -> Change:
        return self._close(event, Status.FAILED, refunded=event.body["refund"])

    def _close(self, event: ZoneEvent, status: Status, *, refunded: bool) -> Change:
        waiting = self.received.pop(job_of(event), None)
        if waiting is not None:
            return Change((self.rows.withdrawn(event, waiting, status),))
        job = self.jobs.pop(job_of(event))
        entries = self.settlement_entries(job, refunded=refunded)
        return Change((self.rows.closed(event, job, status, refunded=refunded),), entries)


OF_JOBS: Mapping[str, Callable[[JobsState[Any], ZoneEvent], Change]] = {
    Kind.RECEIVED: JobsState._received,
    Kind.DECIDED: JobsState._decided,
    Kind.JOB_NOTED: JobsState._noted,
    Kind.CANCELLED: JobsState._cancelled,
    Kind.FINISHED: JobsState._finished,
    Kind.FAILED: JobsState._failed,
}
"""What events that zones of all kinds know do to a state."""
