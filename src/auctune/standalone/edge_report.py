"""Report of a run at sites, by the events of its zone."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from decimal import Decimal
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from auctune.domain import Money
from auctune.domain.money import ZERO
from auctune.edge import EdgeMarket
from auctune.engine.edge.records import read_job
from auctune.engine.records import loss_record
from auctune.files.atomic import write_atomically
from auctune.service.storage.event_log import EventType, ZoneEvent
from auctune.service.zones.edge.state import EdgeEventType, EdgeJobState
from auctune.standalone.folder import write_json
from auctune.standalone.zone import ZoneRun

_MB = 1e6


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


def make_report(
    market: EdgeMarket, zone: ZoneRun[Any], ended: Mapping[str, EdgeJobState]
) -> EdgeRunReport:
    """Return the report of a run that has ended, as have its admitted jobs."""
    bills = (_bill(market, events, ended.get(job)) for job, events in zone.by_job.items())
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


def read_report(value: Any) -> EdgeRunReport:
    """Return the report of the values that `write_report` wrote.

    Raises:
        ValueError, KeyError: if they are of another version.
    """
    return EdgeRunReport(_BILLS.validate_python(value["jobs"]), value["lost_sites"])


def write_losses(folder: Path, events: Sequence[ZoneEvent]) -> None:
    """Write the loss of each step of a job, by its events, into the folder of its result."""
    trained = (event.body["result"] for event in events if event.type == EventType.TRAINED)
    lines = (json.dumps(loss_record(point)) for result in trained for point in result["losses"])
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "losses.jsonl", "".join(f"{line}\n" for line in lines).encode())


def _plain(value: Any) -> Any:
    return float(value) if isinstance(value, Decimal) else value


def _bill(market: EdgeMarket, events: Sequence[ZoneEvent], ended: EdgeJobState | None) -> JobBill:
    """Return the bill of a job, by the events about it; `ended` is None if it was rejected."""
    job, decision, last = read_job(events[0].body["job"]), events[0].body["decision"], events[-1]
    payment, is_done = Money(decision["payment"]), last.type == EventType.FINISHED
    state = "rejected" if ended is None else "done" if is_done else "failed"
    if last.type == EventType.FAILED and last.body["refund"]:
        state = "refunded"
    outcomes = [event.body["outcome"] for event in events if event.type == EventType.TRAINED]
    parts = [] if ended is None else [one for one in ended.plan.slots if one.slot in ended.trained]
    finish = parts[-1].slot if is_done else None
    loss, validation_loss = (
        outcomes[-1][name] if outcomes else None for name in ("loss", "validation_loss")
    )
    return JobBill(
        job=job.id,
        state=state,
        payment=payment,
        refund=payment if state == "refunded" else ZERO,
        promised=decision["finish"],
        finish=finish,
        utility=0.0 if finish is None else job.value(finish),
        slots=len(outcomes),
        lost_slots=0 if ended is None else ended.failed_slots,
        loss=loss,
        validation_loss=validation_loss,
        seconds=sum(one["seconds"] for one in outcomes),
        planned_mb=sum(part.traffic_mb(job, market) for part in parts),
        counted_mb=sum(
            market.chunk_mb * one["chunks_crossed"] + job.parameter_mb * one["workers_away"]
            for one in outcomes
        ),
        chunk_mb=sum(one["chunk_bytes"] for one in outcomes) / _MB,
        parameter_mb=sum(one["parameter_bytes"] for one in outcomes) / _MB,
    )
