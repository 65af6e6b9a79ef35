"""Report of a run at sites, by the events of its zone."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from decimal import Decimal
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from auctune.atomic_files import write_atomically
from auctune.domain import Money
from auctune.domain.money import ZERO
from auctune.edge import EdgeDecision, EdgeJob, EdgeMarket, EdgePlan
from auctune.engine.edge.records import read_decision, read_job, read_plan
from auctune.engine.records import loss_record
from auctune.service.storage.events import EventType, ZoneEvent
from auctune.service.zones.edge.events import EdgeEventType
from auctune.standalone.folder import write_json
from auctune.standalone.zone import ZoneRun

_MB = 1e6


@dataclass(frozen=True, slots=True)
class JobRecord:
    """One job of a run.

    Attributes:
        job: the bid.
        decision: on it.
        plan: slots that were trained, and those to come; none if it was rejected.
        trained: outcomes by slot, as of `EdgeTrained`.
        num_lost_slots: slots that were lost.
        state: of its bill; "admitted" until it has ended.
    """

    job: EdgeJob
    decision: EdgeDecision
    plan: EdgePlan
    trained: Mapping[int, Mapping[str, Any]]
    num_lost_slots: int
    state: str

    @classmethod
    def of(cls, events: Sequence[ZoneEvent]) -> "JobRecord":
        """Return the record of a job, by all events about it."""
        decision = read_decision(events[0].body["answer"])
        slots = [] if decision.plan is None else [*decision.plan.slots]
        state = "admitted" if decision.admitted else "rejected"
        trained: dict[int, Mapping[str, Any]] = {}
        num_lost = 0
        for event in events:
            body = event.body
            match event.type:
                case EventType.TRAINED:
                    trained[body["slot"]] = body["outcome"]
                case EdgeEventType.RELEASED:
                    failed = body["failed_slots"]
                    num_lost += len(failed)
                    slots = [
                        one for one in slots if one.slot <= event.slot and one.slot not in failed
                    ]
                case EdgeEventType.REPLANNED:
                    slots += read_plan(body["found"]).slots
                case EventType.FINISHED:
                    state = "done"
                case EventType.FAILED:
                    state = "refunded" if body["refund"] else "failed"
        job = read_job(events[0].body["job"])
        return cls(job, decision, EdgePlan(tuple(slots)), trained, num_lost, state)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobBill:
    """One job.

    Attributes:
        job: its id.
        state: "rejected", "done", "refunded" or "failed" (its training has diverged).
        payment: what was promised at its admission, and paid.
        refund: what of it was given back.
        promised, finish: its last slot by the decision, and as it was; None if it has none.
        utility: of that; 0 unless done.
        slots: number of slots that were trained.
        lost_slots: number of slots that were lost.
        loss, validation_loss: at the end; None if there is none.
        seconds: of training.
        planned_mb: traffic of its trained slots by the plan (2d).
        counted_mb: the same, as measured: chunks that were fetched, workers away.
        chunk_mb, parameter_mb: bytes that crossed sites, of chunks, and of weights and gradients.
    """

    job: str
    state: str
    payment: Money
    refund: Money
    promised: int | None
    finish: int | None
    utility: float
    slots: int
    lost_slots: int
    loss: float | None
    validation_loss: float | None
    seconds: float
    planned_mb: float
    counted_mb: float
    chunk_mb: float
    parameter_mb: float


_BILLS = TypeAdapter(tuple[JobBill, ...])


@dataclass(frozen=True, slots=True)
class EdgeRunReport:
    """Report of a run.

    Attributes:
        jobs: in the order of their decisions.
        lost: lost sites, by the slot since when.
    """

    jobs: tuple[JobBill, ...]
    lost: dict[str, int]

    @property
    def welfare(self) -> float:
        """Sum of the utilities of jobs that are done."""
        return sum(bill.utility for bill in self.jobs)

    @property
    def income(self) -> Money:
        """Payments less refunds."""
        return sum((bill.payment - bill.refund for bill in self.jobs), ZERO)


def make_report(market: EdgeMarket, zone: ZoneRun[Any]) -> EdgeRunReport:
    """Return the report of a run that has ended."""
    bills = (_bill(JobRecord.of(events), market) for events in zone.by_job.values())
    lost = (event for event in zone.about_none if event.type == EdgeEventType.SITE_LOST)
    return EdgeRunReport(tuple(bills), {one.body["site"]: one.slot + 1 for one in lost})


def write_report(path: Path, report: EdgeRunReport) -> None:
    """Write a report as JSON."""
    value = {
        "welfare": report.welfare,
        "income": float(report.income),
        "lost_sites": report.lost,
        "jobs": [
            {one.name: _plain(getattr(bill, one.name)) for one in fields(bill)}
            for bill in report.jobs
        ],
    }
    write_json(path, value)


def read_report(path: Path) -> EdgeRunReport:
    """Return the report that `write_report` wrote."""
    value = json.loads(path.read_bytes())
    return EdgeRunReport(_BILLS.validate_python(value["jobs"]), value["lost_sites"])


def write_losses(folder: Path, events: Sequence[ZoneEvent]) -> None:
    """Write the loss of each step of a job, by its events, into the folder of its result."""
    trained = (event.body["result"] for event in events if event.type == EventType.TRAINED)
    lines = (json.dumps(loss_record(point)) for result in trained for point in result["losses"])
    write_atomically(folder / "losses.jsonl", "".join(f"{line}\n" for line in lines).encode())


def _plain(value: Any) -> Any:
    return float(value) if isinstance(value, Decimal) else value


def _bill(record: JobRecord, market: EdgeMarket) -> JobBill:
    job, decision, is_done = record.job, record.decision, record.state == "done"
    outcomes = [record.trained[slot] for slot in sorted(record.trained)]
    last = outcomes[-1] if outcomes else {"loss": None, "validation_loss": None}
    parts = [part for part in record.plan.slots if part.slot in record.trained]
    finish = parts[-1].slot if is_done else None
    return JobBill(
        job=job.id,
        state=record.state,
        payment=decision.payment,
        refund=decision.payment if record.state == "refunded" else ZERO,
        promised=decision.finish,
        finish=finish,
        utility=0.0 if finish is None else job.value(finish),
        slots=len(outcomes),
        lost_slots=record.num_lost_slots,
        loss=last["loss"],
        validation_loss=last["validation_loss"],
        seconds=sum(one["seconds"] for one in outcomes),
        planned_mb=sum(part.traffic_mb(job, market) for part in parts),
        counted_mb=sum(
            market.chunk_mb * one["chunks_crossed"] + job.parameter_mb * one["workers_away"]
            for one in outcomes
        ),
        chunk_mb=sum(one["chunk_bytes"] for one in outcomes) / _MB,
        parameter_mb=sum(one["parameter_bytes"] for one in outcomes) / _MB,
    )
