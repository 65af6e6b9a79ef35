"""Rows of jobs, made of what happens to them; a kind of zone says what its rows hold beside."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Generic, Protocol, TypeVar

from auctune.service.jobs.training import Training
from auctune.service.zones.event import Kind, ZoneEvent
from auctune.service.zones.job_row import JobRow, Record, Status, blank_body
from auctune.service.zones.progress import Progress
from auctune.service.zones.received import Received


class Admitted(Protocol):
    """A job that was admitted and is not over.

    Attributes:
        id, seq, owner, created_at: as its row has them.
        request: as its owner made it.
        training: what it trains.
        progress: of its training.
        notes: what its owner should know.
    """

    id: str
    seq: int
    owner: str
    created_at: float
    request: dict[str, Any]
    training: Training
    progress: Progress
    notes: list[str]

    @property
    def phase(self) -> StrEnum:
        """Where it stands."""
        ...


J = TypeVar("J", bound=Admitted)

_OVER: Mapping[str, str] = {
    Kind.FINISHED: "finished",
    Kind.CANCELLED: "cancelled",
    Kind.FAILED: "failed",
    Kind.DECIDED: "rejected",
}


class JobRows(ABC, Generic[J]):
    """Makes rows of the jobs of one kind."""

    @abstractmethod
    def default_fields(self) -> Record:
        """The keys that rows of this kind have of their own, with nothing in them."""

    @abstractmethod
    def job_fields(self, job: J) -> Record:
        """The size and the decision of an admitted job, and what is in these keys."""

    @abstractmethod
    def decision_fields(self, body: Record) -> Record:
        """The same of a job that is decided on in this moment.

        Args:
            body: of the event that says so, or would.
        """

    @abstractmethod
    def has_started(self, job: J) -> bool:
        """Whether a job has trained."""

    @abstractmethod
    def rejection_reason(self, body: Mapping[str, Any]) -> str:
        """The reason for people.

        Args:
            body: of a rejection's event.
        """

    @abstractmethod
    def rejected_param(self, body: Mapping[str, Any]) -> str | None:
        """The term of the request that stood against it; none: no term did.

        Args:
            body: of a rejection's event.
        """

    def received(self, event: ZoneEvent, job: Received) -> JobRow:
        """A job whose data are being looked at."""
        row = {**self._empty_of(job), "state": "validating"}
        return _row(event, job, Status.VALIDATING, row)

    def open(self, event: ZoneEvent, job: J) -> JobRow:
        """An admitted job."""
        status = Status.RUNNING if self.has_started(job) else Status.QUEUED
        return _row(event, job, status, self._open_body(job))

    def rejected(self, event: ZoneEvent, asked: Received) -> JobRow:
        """A job that was decided on, and not admitted."""
        return _row(event, asked, Status.FAILED, self._decided(event.body) | self._over(event))

    def withdrawn(self, event: ZoneEvent, job: Received, status: Status) -> JobRow:
        """A job that is over before it was decided on."""
        return _row(event, job, status, self._empty_of(job) | self._over(event))

    def closed(self, event: ZoneEvent, job: J, status: Status, *, refunded: bool) -> JobRow:
        """An admitted job that is over.

        Args:
            event: the last one about it.
            job: as it stood before.
            status: that it has from now on.
            refunded: whether its owner has the money back.
        """
        row = self._open_body(job) | self._over(event)
        if refunded:
            row |= {"state": "refunded", "refunded": True}
        return _row(event, job, status, row)

    def preview(self, zone: str, at: float, job: str, body: Record) -> JobRow:
        """A job as it would be; it is nowhere on record.

        Args:
            zone: that was asked.
            at: unix time.
            job: its id.
            body: of the event that would have happened.
        """
        row = {**self._decided(body), "state": "what_if"}
        status = Status.QUEUED
        if not body["decision"]["admitted"]:
            row |= {"error": self._rejection(body), "finished_at": at}
            status = Status.FAILED
        return JobRow(job, zone, 0, body["owner"], at, status, row)

    def _empty(self, owner: str, request: Record, training: Record) -> Record:
        return {**blank_body(owner, request, training), **self.default_fields()}

    def _empty_of(self, job: Received | J) -> Record:
        return self._empty(job.owner, job.request, job.training.to_record())

    def _open_body(self, job: J) -> Record:
        return {
            **self._empty_of(job),
            **self.job_fields(job),
            "state": job.phase.value,
            "progress": job.progress.to_record(),
            "notes": list(job.notes),
        }

    def _decided(self, body: Record) -> Record:
        blank = self._empty(body["owner"], body["request"], body["training"])
        return {**blank, **self.decision_fields(body)}

    def _over(self, event: ZoneEvent) -> Record:
        """What of a row changes with the last event about its job, but for a refund."""
        return {
            "state": _OVER[event.kind],
            "finished_at": event.at,
            "files": event.body.get("files", []),
            "error": self._error(event),
        }

    def _error(self, event: ZoneEvent) -> Record | None:
        if event.kind == Kind.FAILED:
            return {name: event.body[name] for name in ("code", "message", "param")}
        return self._rejection(event.body) if event.kind == Kind.DECIDED else None

    def _rejection(self, body: Mapping[str, Any]) -> Record:
        message, param = self.rejection_reason(body), self.rejected_param(body)
        return {"code": "bid_rejected", "message": message, "param": param}


def _row(event: ZoneEvent, job: Received | Admitted, status: Status, body: Record) -> JobRow:
    return JobRow(job.id, event.zone, job.seq, job.owner, job.created_at, status, body)
