"""Report of a finished run, and its bill."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from auctune.engine.spot.overhead import MeasuredOverhead, assumed_overhead, measure_overhead
from auctune.engine.spot.state import SpotRunState
from auctune.files.atomic import write_atomically
from auctune.spot.job import SpotJob
from auctune.spot.policy import SpotOutcome
from auctune.spot.value import value_of_finish


@dataclass(frozen=True, slots=True)
class SpotRunReport:
    """Result of a run.

    Attributes:
        outcome: allocations, costs and progress, as of a simulation.
        adapter: its folder; None if training failed.
        note: why training failed or stopped early.
        overhead: as measured.
        num_preempted: spot instances that were preempted.
        num_crashed: workers that crashed.
    """

    outcome: SpotOutcome
    adapter: Path | None
    note: str
    overhead: MeasuredOverhead
    num_preempted: int
    num_crashed: int


def make_report(state: SpotRunState, job: SpotJob, total_rows: int, adapter: Path) -> SpotRunReport:
    """Return the report of a run that has ended.

    Args:
        state: of the run.
        job: of the run.
        total_rows: the whole workload.
        adapter: folder for it.
    """
    assert state.ended is not None
    return SpotRunReport(
        outcome=_outcome(state, job, total_rows),
        adapter=adapter if state.ended["state"] == "done" else None,
        note=state.ended["note"],
        overhead=measure_overhead(state.slots),
        num_preempted=state.num_preempted,
        num_crashed=state.num_crashed,
    )


def _outcome(state: SpotRunState, job: SpotJob, total_rows: int) -> SpotOutcome:
    assert state.ended is not None
    finish = float(state.ended["finish"])
    overtime_cost = 0.0
    if state.overtime_started is not None:
        # All slots up to the deadline began: the last one has the price.
        price = state.slots[-1].observation.on_demand_price
        held = state.overtime_slots if state.overtime else finish - job.deadline
        overtime_cost = price * job.n_max * held
    return SpotOutcome(
        allocations=tuple(record.allocation for record in state.slots),
        progress=tuple(
            float(job.workload) * record.rows / total_rows
            for record in state.slots
            if record.rows is not None
        ),
        slot_cost=state.slot_cost,
        ending_cost=overtime_cost,
        finish=finish,
        value=value_of_finish(job, finish) if state.ended["state"] == "done" else 0.0,
    )


def write_bill(path: Path, state: SpotRunState, job: SpotJob, report: SpotRunReport) -> None:
    """Write allocations and payments as JSON, with money in the market's unit."""
    outcome = report.outcome
    bill = {
        "slots": [_line(state, number) for number in range(len(state.slots))],
        "slot_cost": outcome.slot_cost,
        "overtime_slots": max(0.0, outcome.finish - job.deadline),
        "overtime_cost": outcome.ending_cost,
        "cost": outcome.cost,
        "finish": outcome.finish,
        "value": outcome.value,
        "utility": outcome.utility,
        "overhead": {"assumed": assumed_overhead(job), "measured": asdict(report.overhead)},
        "preempted": report.num_preempted,
        "crashed": report.num_crashed,
    }
    write_atomically(path, json.dumps(bill, indent=2).encode() + b"\n")


def _line(state: SpotRunState, number: int) -> dict[str, Any]:
    record = state.slots[number]
    return {
        "slot": number,
        "price": record.observation.price,
        "on_demand_price": record.observation.on_demand_price,
        "available": record.observation.available,
        "on_demand": record.allocation.on_demand,
        "spot": record.allocation.spot,
        "preempted": record.preempted,
        "paid": record.paid,
        "rows": record.rows,
    }
