"""Report of a run: a line of the bill for each job, and the traffic that was counted."""

import json
import math
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from auctune.atomic_files import write_atomically
from auctune.domain import Money
from auctune.domain.money import ZERO
from auctune.edge.market import EdgeMarket
from auctune.run.edge.state import EdgeRunState, JobRecord

_MB = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class JobBill:
    """One job.

    Attributes:
        job: its id.
        state: "rejected", "done", "refunded", "failed" (its training has diverged) or "unfinished".
        payment: what was promised at its admission, and paid.
        refund: what of it was given back.
        promised, finish: its last slot by the decision, and as it was; None if it has none.
        utility: of that; 0 unless done.
        slots: number of slots that were trained.
        torn: number of slots that were lost.
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
    torn: int
    loss: float | None
    validation_loss: float | None
    seconds: float
    planned_mb: float
    counted_mb: float
    chunk_mb: float
    parameter_mb: float


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


def make_report(state: EdgeRunState) -> EdgeRunReport:
    """Return the report of a run that has ended."""
    market = state.instance.market
    jobs = tuple(_bill(record, market) for record in state.jobs.values())
    return EdgeRunReport(jobs, dict(state.lost))


def write_report(path: Path, report: EdgeRunReport) -> None:
    """Write a report as JSON."""
    value = {
        "welfare": report.welfare,
        "income": float(report.income),
        "lost_sites": report.lost,
        "jobs": [_json(bill) for bill in report.jobs],
    }
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    write_atomically(path, text.encode() + b"\n")


def _json(bill: JobBill) -> dict[str, Any]:
    return {name: _plain(getattr(bill, name)) for name in JobBill.__slots__}


def _plain(value: Any) -> Any:
    """Return a value as JSON; null for the loss of a training that diverged."""
    if isinstance(value, Decimal):
        return float(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _bill(record: JobRecord, market: EdgeMarket) -> JobBill:
    outcomes = [record.trained[slot] for slot in sorted(record.trained)]
    last = outcomes[-1] if outcomes else None
    parts = [p for p in (record.plan.slots if record.plan else ()) if p.slot in record.trained]
    job = record.job
    finish = parts[-1].slot if record.is_done else None
    payment, kept = record.decision.payment, record.is_done or record.diverged
    return JobBill(
        job=job.id,
        state=_state(record),
        payment=payment,
        refund=ZERO if kept or not record.decision.admitted else payment,
        promised=record.decision.finish,
        finish=finish,
        utility=0.0 if finish is None else job.value(finish),
        slots=len(outcomes),
        torn=record.num_torn,
        loss=last.loss if last else None,
        validation_loss=last.validation_loss if last else None,
        seconds=sum(one.seconds for one in outcomes),
        planned_mb=sum(part.traffic_mb(job, market) for part in parts),
        counted_mb=sum(
            market.chunk_mb * one.chunks_crossed + job.parameter_mb * one.workers_away
            for one in outcomes
        ),
        chunk_mb=sum(one.chunk_bytes for one in outcomes) / _MB,
        parameter_mb=sum(one.parameter_bytes for one in outcomes) / _MB,
    )


def _state(record: JobRecord) -> str:
    if not record.decision.admitted:
        return "rejected"
    if record.refunded:
        return "refunded"
    if record.diverged:
        return "failed"
    return "done" if record.is_done else "unfinished"
