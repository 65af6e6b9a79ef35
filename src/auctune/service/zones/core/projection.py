"""Projection of jobs: rows and messages for readers, made from events."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Any, Generic, Protocol, TypeVar

from auctune.domain import Money, Reason
from auctune.domain.data_size import DataSize
from auctune.domain.money import least_above
from auctune.service.jobs.training import Training
from auctune.service.ledger import Entry, recognize_revenue, refund
from auctune.service.zones.core.clock import SlotClock
from auctune.service.zones.core.events import EventType, ZoneEvent
from auctune.service.zones.core.job import PendingJob, Progress
from auctune.service.zones.core.metered import Meter, estimate_view
from auctune.service.zones.core.read_model import JobReadModel, Record, Status, empty_body


@dataclass(frozen=True, slots=True)
class EventMessage:
    """How one kind of event is told.

    Attributes:
        message: for people, from the event's body.
        level: info, warn or error.
        facts: keys of the body that programs read as well.
    """

    message: Callable[[Mapping[str, Any]], str]
    level: str = "info"
    data_fields: tuple[str, ...] = ()


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
    EventType.JOB_NOTED: EventMessage(lambda body: str(body["text"]), "warn"),
    EventType.OUT_OF_MEMORY: EventMessage(lambda body: str(body["text"]), "warn"),
}


# Rows of jobs, made from events; a kind of zone adds its own fields.


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
    EventType.FINISHED: "finished",
    EventType.CANCELLED: "cancelled",
    EventType.FAILED: "failed",
    EventType.DECIDED: "rejected",
}


class JobProjection(ABC, Generic[J]):
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

    def received(self, event: ZoneEvent, job: PendingJob) -> JobReadModel:
        """A job whose data are being looked at."""
        row = {**self._empty_of(job), "state": "validating"}
        return _row(event, job, Status.VALIDATING, row)

    def open(self, event: ZoneEvent, job: J) -> JobReadModel:
        """An admitted job."""
        status = Status.RUNNING if self.has_started(job) else Status.QUEUED
        return _row(event, job, status, self._open_body(job))

    def rejected(self, event: ZoneEvent, asked: PendingJob) -> JobReadModel:
        """A job that was decided on, and not admitted."""
        return _row(event, asked, Status.FAILED, self._decided(event.body) | self._over(event))

    def withdrawn(self, event: ZoneEvent, job: PendingJob, status: Status) -> JobReadModel:
        """A job that is over before it was decided on."""
        return _row(event, job, status, self._empty_of(job) | self._over(event))

    def closed(self, event: ZoneEvent, job: J, status: Status, *, refunded: bool) -> JobReadModel:
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

    def preview(self, zone: str, at: float, job: str, body: Record) -> JobReadModel:
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
        return JobReadModel(job, zone, 0, body["owner"], at, status, row)

    def _empty(self, owner: str, request: Record, training: Record) -> Record:
        return {**empty_body(owner, request, training), **self.default_fields()}

    def _empty_of(self, job: PendingJob | J) -> Record:
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
        if event.kind == EventType.FAILED:
            return {name: event.body[name] for name in ("code", "message", "param")}
        return self._rejection(event.body) if event.kind == EventType.DECIDED else None

    def _rejection(self, body: Mapping[str, Any]) -> Record:
        message, param = self.rejection_reason(body), self.rejected_param(body)
        return {"code": "bid_rejected", "message": message, "param": param}


def _row(
    event: ZoneEvent, job: PendingJob | Admitted, status: Status, body: Record
) -> JobReadModel:
    return JobReadModel(job.id, event.zone, job.seq, job.owner, job.created_at, status, body)


# Binding prices: their fields, messages and settlement.


def min_bid(decision: Mapping[str, Any] | None) -> str | None:
    """The least bid that would have been admitted; none where no bid would, or it was."""
    if decision is None or decision["reason"] != Reason.UNPROFITABLE or decision["price"] is None:
        return None
    least = least_above(Decimal(decision["price"]))
    return None if least is None else str(least)


def rejection_reason(body: Mapping[str, Any], words: Mapping[Reason, str]) -> str:
    """The reason for people.

    Args:
        body: of a rejection's event.
        words: of the kind, for each reason.
    """
    decision, left = body["decision"], body.get("budget_left")
    if left is not None:
        return f"the price, {decision['price']}, is above what is left of the budget, {left}"
    return words[Reason(decision["reason"])]


def rejected_param(body: Mapping[str, Any]) -> str:
    """The term that stood against it: the deadline where there was no room, else the bid."""
    is_late = body["decision"]["reason"] in (Reason.NO_CAPACITY, Reason.NO_FEASIBLE_SCHEDULE)
    return "market.deadline" if is_late else "market.bid"


def decision_message(body: Mapping[str, Any], words: Callable[[Mapping[str, Any]], str]) -> str:
    """A decision, as it is told to the job's owner.

    Args:
        body: of its event.
        words: why it was rejected, of the same.
    """
    decision = body["decision"]
    if decision["admitted"]:
        return f"Admitted for {decision['payment']}"
    least = min_bid(decision)
    why = f"Rejected ({decision['reason']}): {words(body)}"
    return why + (f"; {least} would do" if least else "")


def replanned_message(body: Mapping[str, Any]) -> str:
    """A new plan, as it is told to the job's owner."""
    return f"Planned anew, at the price that was agreed: {body['why']}"


def price_fields(row: JobReadModel, clock: SlotClock) -> dict[str, Any]:
    """What is of such kinds in the market's part of a job: the price, and what would have done."""
    body = row.body
    decision, earliest, left = body["decision"], body.get("earliest"), body.get("budget_left")
    admitted = decision is not None and decision["admitted"]
    return {
        "payment": decision["payment"] if admitted else None,
        "least_bid": min_bid(decision),
        "price": None if left is None else decision["price"],
        "budget_left": left,
        "earliest_deadline": None if earliest is None else clock.slot_end(earliest),
    }


def settlement(owner: str, payment: Money, *, refunded: bool) -> tuple[Entry, ...]:
    """What the ledger says of a job that is over: its price is earned, or given back."""
    return refund(owner, payment) if refunded else recognize_revenue(payment)


# Market fields that all kinds of zones share.

ADAPTER_FIELDS = ("rank", "alpha", "dropout", "target_modules", "learning_rate")
"""What of its training is shown of a job that trains an adapter."""


def market_fields(
    row: JobReadModel, trained_by: tuple[str, ...] = ADAPTER_FIELDS
) -> dict[str, Any]:
    """The fields of `MarketPart` of the API; what is of a kind of zones is none.

    Args:
        row: of the job.
        trained_by: what of its training is shown.
    """
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
        "least_bid": None,
        "price": None,
        "budget_left": None,
        "deadline": request["deadline"],
        "earliest_deadline": None,
        "refunded": body["refunded"],
        "plan": None,
        "progress": body["progress"],
        "notes": [*_data_notes(body["size"], training), *body["notes"]],
        "lora": {name: training[name] for name in trained_by},
    }


def _data_notes(size: dict[str, Any] | None, training: dict[str, Any]) -> tuple[str, ...]:
    """What training loses of the data; images of sites have no `max_length`, and lose nothing."""
    length = training.get("max_length")
    if size is None or length is None:
        return ()
    return DataSize.from_record(size).notes(length)


# Fields of metered jobs: `MeteredFields` of the API.

METERED_ROW: dict[str, Any] = {"meter": None}
"""Keys of the rows of metered jobs, with nothing in them: what the meter stands at."""


def metered_fields(row: JobReadModel) -> dict[str, Any] | None:
    """Of a job that was decided on; none before that.

    Its row's decision has max_cost, estimate, and least_max_cost where it was rejected for its cap;
    its `meter` is a record of one; its `worth`, if it has one, says what was `reached`.
    """
    decision, meter = row.body["decision"], row.body["meter"]
    if decision is None:
        return None
    found = None if meter is None else Meter.from_record(meter)
    estimate = decision["estimate"]
    return {
        "max_cost": decision["max_cost"],
        "least_max_cost": decision.get("least_max_cost"),
        "cost": "0.0000" if found is None else str(found.charged),
        "held": "0.0000" if found is None else str(found.remaining),
        "slots": 0 if found is None else found.next_slot,
        "value": (row.body.get("worth") or {}).get("reached"),
        "estimate": None if estimate is None else estimate_view(estimate, decision["max_cost"]),
    }
