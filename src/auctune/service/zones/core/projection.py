"""Projection of jobs: rows, fields of the API and messages to owners, made from events."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar, Generic, TypeVar

from pydantic_core import to_jsonable_python

from auctune.domain import Reason
from auctune.domain.data_size import DataSize, job_notes
from auctune.domain.money import least_above
from auctune.domain.training import PARAMETERS, module_notes
from auctune.service.storage.event_log import EventType, Record, ZoneEvent
from auctune.service.storage.queries import JobReadModel, Status, empty_body
from auctune.service.zones.core.clock import SlotClock
from auctune.service.zones.core.events import adapter
from auctune.service.zones.core.job import (
    Meter,
    MeteredJob,
    OpenJob,
    PendingJob,
    PrepaidJob,
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


class JobProjection(ABC, Generic[J]):
    """Projection of the jobs of one kind of zone.

    Attributes:
        messages: to owners, by type of event; other events have no message.
        default_fields: keys that rows of this kind have of their own, with their empty values.
            Stored rows of ended jobs are not rewritten: they lack keys that were added later.
        validates_each_slot: whether jobs are validated at the end of each slot, and not of each
            epoch.
    """

    messages: Mapping[str, EventMessage] = COMMON_MESSAGES
    default_fields: ClassVar[Record] = {}
    validates_each_slot: ClassVar[bool] = False

    @abstractmethod
    def job_fields(self, job: J) -> Record:
        """Return the size, the decision and the kind's own fields of an open job."""

    @abstractmethod
    def decision_fields(self, body: Record) -> Record:
        """Return those of the fields that a decision fixes, from the body of its event."""

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
        row = {**self._empty_of(job), "state": "validating"}
        return _row(event, job, Status.VALIDATING, row)

    def open(self, event: ZoneEvent, job: J) -> JobReadModel:
        status = Status.RUNNING if self.has_started(job) else Status.QUEUED
        return _row(event, job, status, self._open_body(job))

    def rejected(self, event: ZoneEvent, job: PendingJob) -> JobReadModel:
        return _row(event, job, Status.FAILED, self._decided(event.body) | self._ended(event))

    def withdrawn(self, event: ZoneEvent, job: PendingJob, status: Status) -> JobReadModel:
        return _row(event, job, status, self._empty_of(job) | self._ended(event))

    def closed(self, event: ZoneEvent, job: J, status: Status, *, refunded: bool) -> JobReadModel:
        """Return the row of an admitted job that ended, by its state before its last event."""
        row = self._open_body(job) | self._ended(event)
        if refunded:
            row |= {"state": "refunded", "refunded": True}
        return _row(event, job, status, row)

    def preview(self, zone: str, at: float, job: str, body: Record) -> JobReadModel:
        """Return the row of a job that is not recorded, by the body that its event would have."""
        row = {**self._decided(body), "state": "what_if"}
        status = Status.QUEUED
        if not body["decision"]["admitted"]:
            row |= {"error": self._rejection(body), "finished_at": at}
            status = Status.FAILED
        return JobReadModel(job, zone, 0, body["owner"], at, status, row)

    def market_fields(self, row: JobReadModel) -> Record:
        """Return the fields of `market` that all kinds share; a kind fills in its own."""
        body = row.body
        decision, request, training = body["decision"], body["request"], body["training"]
        admitted = decision is not None and decision["admitted"]
        return {
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

    def _empty(self, owner: str, request: Record, training: Record) -> Record:
        return {**empty_body(owner, request, training), **self.default_fields}

    def _empty_of(self, job: PendingJob) -> Record:
        return self._empty(job.owner, job.request, to_jsonable_python(job.training))

    def _open_body(self, job: J) -> Record:
        return {
            **self._empty_of(job),
            **self.job_fields(job),
            "state": job.phase.value,
            "progress": to_jsonable_python(job.progress),
            "notes": list(job.notes),
        }

    def _decided(self, body: Record) -> Record:
        empty = self._empty(body["owner"], body["request"], body["training"])
        return {**empty, **self.decision_fields(body)}

    def _ended(self, event: ZoneEvent) -> Record:
        return {
            "state": _END_STATES[event.type],
            "finished_at": event.at,
            "files": event.body.get("files", []),
            "checkpoints": event.body.get("checkpoints", []),
            "error": self._error(event),
        }

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


def _row(event: ZoneEvent, job: PendingJob, status: Status, body: Record) -> JobReadModel:
    return JobReadModel(job.id, event.zone, job.seq, job.owner, job.created_at, status, body)


P = TypeVar("P", bound=PrepaidJob)


class PrepaidProjection(JobProjection[P]):
    """Projection of jobs that pay a binding price; `reasons` of rejections are in words."""

    default_fields: ClassVar[Record] = {"earliest": None, "budget_remaining": None}
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


class MeteredProjection(JobProjection[M]):
    """Projection of jobs that pay for what they use. Their rows have a `meter`."""

    default_fields: ClassVar[Record] = {"meter": None}

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
