"""Projection of jobs: rows, fields of the API and messages to owners, made from events.

A field of a job in the API is stated in these places: in the kind's row (a subclass of `JobRow` in
its `state.py`), filled from the job or the decision by its name; in the kind's `market`, or with
None for other kinds in `market_fields`; in `MarketFields` of `auctune.service.http.schemas`; and in
docs/reference/api.md.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal
from typing import Any, ClassVar, Generic, TypeVar

from auctune.domain import Money, Reason
from auctune.domain.data_size import DataSize, job_notes
from auctune.domain.money import least_above
from auctune.domain.training import PARAMETERS, module_notes
from auctune.engine.unix_time import SlotClock
from auctune.service.jobs.training import Training
from auctune.service.storage.event_log import EventType, Record, ZoneEvent
from auctune.service.storage.queries import JobReadModel, Status
from auctune.service.zones.core.events import JobDecided, Size, adapter
from auctune.service.zones.core.job import (
    Meter,
    MeteredJob,
    OpenJob,
    PendingJob,
    PrepaidJob,
    Progress,
    estimate_view,
)

J = TypeVar("J", bound=OpenJob)


@dataclass(frozen=True, slots=True)
class EventMessage:
    """Message to a job's owner about events of one type.

    `data_fields` are keys of the body that programs read as well.
    """

    message: Callable[[Mapping[str, Any]], str]
    level: str = "info"
    data_fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Usage:
    """What a charge was for.

    Attributes:
        quantity: in `unit`, a plural as in the unit format of FOCUS.
        is_fixed_price: whether the unit has a price of the zone's settings.
    """

    quantity: float
    unit: str
    is_fixed_price: bool = False


def _trained(body: Mapping[str, Any]) -> str:
    result = body["result"]
    return f"{result['rows']} of {result['total_rows']} rows trained"


def _failed(body: Mapping[str, Any]) -> str:
    ending = "; refunded" if body["refund"] else ""
    return f"{body['message']}{ending}"


COMMON_MESSAGES: Mapping[str, EventMessage] = {
    EventType.RECEIVED: EventMessage(lambda _: "Checking the data"),
    EventType.TRAINED: EventMessage(_trained),
    EventType.PAUSED: EventMessage(lambda _: "Paused by its owner"),
    EventType.RESUMED: EventMessage(lambda _: "Resumed"),
    EventType.CANCELLED: EventMessage(lambda _: "Cancelled by its owner"),
    EventType.FINISHED: EventMessage(lambda _: "The adapter is ready"),
    EventType.FAILED: EventMessage(_failed, "error"),
    EventType.NOTE_ADDED: EventMessage(lambda body: str(body["text"]), "warn"),
    EventType.OUT_OF_MEMORY: EventMessage(lambda body: str(body["text"]), "warn"),
}
"""Messages of the events that all kinds of zones have in common."""

_END_STATES: Mapping[str, str] = {
    EventType.FINISHED: "finished",
    EventType.CANCELLED: "cancelled",
    EventType.FAILED: "failed",
    EventType.DECIDED: "rejected",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """Body of a job's row. A kind of zone adds fields of its own.

    Fields are those of the same name of an open job, or of the decision on a job; what they do not
    have is left at its default. Stored rows of ended jobs are not rewritten: they lack fields that
    were added later.

    Attributes:
        request, training: the request, and its resolved training settings.
        state: of the job, by the market's name.
        size: of its data.
        decision: `admitted`, `reason`, and fields of the kind.
        files: ids of its result files; the adapter is the last.
        checkpoints: `file` and `metrics` of the adapters of its last epochs.
        error: code, message and param, where it failed.
    """

    owner: str
    request: Record
    training: Training
    state: str = ""
    size: Size | None = None
    decision: Any = None
    progress: Progress | None = None
    files: list[str] = field(default_factory=list)
    checkpoints: list[Record] = field(default_factory=list)
    error: Record | None = None
    refunded: bool = False
    finished_at: float | None = None
    notes: list[str] = field(default_factory=list)


class JobProjection(ABC, Generic[J]):
    """Projection of the jobs of one kind of zone.

    Attributes:
        row: type of the bodies of rows.
        messages: to owners, by type of event; other events have no message.
        validates_each_slot: whether jobs are validated at the end of each slot, and not of each
            epoch.
    """

    row: ClassVar[type[JobRow]] = JobRow
    messages: Mapping[str, EventMessage] = COMMON_MESSAGES
    validates_each_slot: ClassVar[bool] = False

    @abstractmethod
    def rejection_reason(self, body: Mapping[str, Any]) -> str:
        """Return why a bid was rejected, from the body of its event."""

    @abstractmethod
    def rejected_param(self, body: Mapping[str, Any]) -> str | None:
        """Return the field of the request that a bid was rejected for, or None."""

    @abstractmethod
    def market(self, row: JobReadModel, clock: SlotClock) -> Record:
        """Return the market's part of a job: `MarketFields` of the API."""

    @abstractmethod
    def finish(self, row: JobReadModel, clock: SlotClock) -> float | None:
        """Return when a job is expected to finish, in unix time, or None if that is unknown."""

    def usage(self, body: Mapping[str, Any], clock: SlotClock) -> Usage:
        """Return what a charge was for, from the body of its event."""
        return Usage(1.0, "Jobs")

    def has_started(self, job: J) -> bool:
        return bool(job.progress.rows or job.progress.steps)

    def received(self, event: ZoneEvent, job: PendingJob) -> JobReadModel:
        row = replace(self._row(job), state="validating")
        return _read_model(event, job, Status.VALIDATING, row)

    def open(self, event: ZoneEvent, job: J) -> JobReadModel:
        status = Status.RUNNING if self.has_started(job) else Status.QUEUED
        return _read_model(event, job, status, self._row(job))

    def rejected(self, event: ZoneEvent, job: PendingJob, data: JobDecided) -> JobReadModel:
        return _read_model(event, job, Status.FAILED, self._ended(event, self._row(data)))

    def withdrawn(self, event: ZoneEvent, job: PendingJob, status: Status) -> JobReadModel:
        return _read_model(event, job, status, self._ended(event, self._row(job)))

    def closed(self, event: ZoneEvent, job: J, status: Status, *, refunded: bool) -> JobReadModel:
        """Return the row of an admitted job that ended, by its state before its last event."""
        row = self._ended(event, self._row(job))
        if refunded:
            row = replace(row, state="refunded", refunded=True)
        return _read_model(event, job, status, row)

    def preview(self, zone: str, at: float, job: str, data: JobDecided) -> JobReadModel:
        """Return the row of a job that is not recorded, by its decision."""
        row, status = replace(self._row(data), state="what_if"), Status.QUEUED
        if not data.is_admitted:
            row = replace(row, error=self._rejection(data.body()), finished_at=at)
            status = Status.FAILED
        return JobReadModel(job, zone, 0, data.owner, at, status, _json(row))

    def market_fields(self, row: JobReadModel) -> Record:
        """Return all fields of `market`, those of some kinds with None; a kind fills in its own."""
        body = row.body
        decision, request, training = body["decision"], body["request"], body["training"]
        admitted = decision is not None and decision["admitted"]
        return {
            "start_from": request["start_from"],
            "metered": None,
            "target": None,
            "edge": None,
            "zone": row.zone,
            "state": body["state"],
            "decision": None if decision is None else ("admitted" if admitted else "rejected"),
            "reason": None if decision is None else decision["reason"],
            "bid": request["bid"],
            "payment": None,
            "min_bid": None,
            "price": None,
            "budget_remaining": None,
            "deadline": request["deadline"],
            "earliest_deadline": None,
            "refunded": body["refunded"],
            "plan": None,
            "progress": body["progress"],
            "notes": [*self._data_notes(body["size"], training), *body["notes"]],
            "lora": {
                name: training.get(name, one.default)
                for name, one in PARAMETERS.items()
                if one.is_shown
            },
        }

    def _row(self, source: PendingJob | JobDecided) -> JobRow:
        names = (one.name for one in fields(self.row) if hasattr(source, one.name))
        return self.row(**{name: getattr(source, name) for name in names})

    def _ended(self, event: ZoneEvent, row: JobRow) -> JobRow:
        return replace(
            row,
            state=_END_STATES[event.type],
            finished_at=event.at,
            files=event.body.get("files", []),
            checkpoints=event.body.get("checkpoints", []),
            error=self._error(event),
        )

    def _data_notes(self, size: Record | None, training: Record) -> tuple[str, ...]:
        """Return what validation is charged, what training loses, who cannot load the adapter."""
        length, modules = training.get("max_length"), training.get("target_modules", ())
        if size is None or length is None:
            return module_notes(modules)
        return job_notes(
            DataSize.from_record(size),
            epochs=training["epochs"],
            max_length=length,
            target_modules=modules,
            in_each_slot=self.validates_each_slot,
        )

    def _error(self, event: ZoneEvent) -> Record | None:
        if event.type == EventType.FAILED:
            return {name: event.body[name] for name in ("code", "message", "param")}
        return self._rejection(event.body) if event.type == EventType.DECIDED else None

    def _rejection(self, body: Mapping[str, Any]) -> Record:
        message, param = self.rejection_reason(body), self.rejected_param(body)
        return {"code": "bid_rejected", "message": message, "param": param}


def _json(row: JobRow) -> Record:
    body: Record = adapter(type(row)).dump_python(row, mode="json")
    return body


def _read_model(event: ZoneEvent, job: PendingJob, status: Status, row: JobRow) -> JobReadModel:
    created = job.seq, job.owner, job.created_at
    return JobReadModel(job.id, event.zone, *created, status, _json(row))


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepaidRow(JobRow):
    """Row of a job that pays a binding price.

    Attributes:
        earliest: slot by whose end a job could finish that was too late for its deadline.
        budget_remaining: remaining budget of its owner, if the price was above it.
    """

    earliest: int | None = None
    budget_remaining: Money | None = None


P = TypeVar("P", bound=PrepaidJob)


class PrepaidProjection(JobProjection[P]):
    """Projection of jobs that pay a binding price; `reasons` of rejections are in words."""

    row: ClassVar[type[JobRow]] = PrepaidRow
    reasons: ClassVar[Mapping[Reason, str]]

    def rejection_reason(self, body: Mapping[str, Any]) -> str:
        decision, left = body["decision"], body.get("budget_remaining")
        if left is not None:
            return f"the price, {decision['price']}, exceeds the remaining budget, {left}"
        return self.reasons[Reason(decision["reason"])]

    def rejected_param(self, body: Mapping[str, Any]) -> str:
        is_late = body["decision"]["reason"] in (Reason.NO_CAPACITY, Reason.NO_FEASIBLE_SCHEDULE)
        return "market.deadline" if is_late else "market.bid"

    def decision_message(self, body: Mapping[str, Any]) -> str:
        """Return a decision as its owner reads it."""
        decision = body["decision"]
        if decision["admitted"]:
            return f"Admitted for {decision['payment']}"
        least = _min_bid(decision)
        why = f"Rejected ({decision['reason']}): {self.rejection_reason(body)}"
        return why + (f"; {least} would be enough" if least else "")

    def price_fields(self, row: JobReadModel, clock: SlotClock) -> Record:
        """Return the price of a job, and what would have been admitted in its place."""
        body = row.body
        decision, earliest, left = body["decision"], body["earliest"], body["budget_remaining"]
        admitted = decision is not None and decision["admitted"]
        return {
            "payment": decision["payment"] if admitted else None,
            "min_bid": _min_bid(decision),
            "price": None if left is None else decision["price"],
            "budget_remaining": left,
            "earliest_deadline": None if earliest is None else clock.slot_end(earliest),
        }


def _min_bid(decision: Mapping[str, Any] | None) -> str | None:
    """Return the least bid that would have been admitted, or None."""
    if decision is None or decision["reason"] != Reason.UNPROFITABLE or decision["price"] is None:
        return None
    least = least_above(Decimal(decision["price"]))
    return None if least is None else str(least)


def replanned_message(body: Mapping[str, Any]) -> str:
    """Return a new plan as its owner reads it."""
    return f"New plan at the agreed price: {body['why']}"


M = TypeVar("M", bound=MeteredJob)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeteredRow(JobRow):
    """Row of a job that pays for what it uses; `meter` has its cap and charges."""

    meter: Meter | None = None


class MeteredProjection(JobProjection[M]):
    """Projection of jobs that pay for what they use."""

    row: ClassVar[type[JobRow]] = MeteredRow

    def metered_fields(self, row: JobReadModel) -> Record | None:
        """Return `MeteredFields` of the API, or None before the decision."""
        decision, record = row.body["decision"], row.body["meter"]
        if decision is None:
            return None
        meter = None if record is None else adapter(Meter).validate_python(record)
        estimate = decision["estimate"]
        return {
            "max_cost": decision["max_cost"],
            "min_max_cost": decision.get("min_max_cost"),
            "cost": "0.0000" if meter is None else str(meter.charged),
            "held": "0.0000" if meter is None else str(meter.remaining),
            "slots": 0 if meter is None else meter.next_slot,
            "value": (row.body.get("worth") or {}).get("reached"),
            "estimate": None if estimate is None else estimate_view(estimate, decision["max_cost"]),
        }
