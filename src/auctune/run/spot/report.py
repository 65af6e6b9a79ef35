"""What came of a run, and its bill."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from auctune.atomic_files import write_atomically
from auctune.run.spot.measured import MeasuredOverhead, measure_overhead
from auctune.run.spot.state import SpotRunState
from auctune.spot.job import SpotJob
from auctune.spot.policy import SpotOutcome
from auctune.spot.terms import value_of_finish


@dataclass(frozen=True, slots=True)
class SpotRunReport:
    """What came of a run.

    Attributes:
        outcome: what was held, paid and reached, as a simulation would say it.
        adapter: where it lies; none if training failed.
        note: why training failed or stopped early.
        overhead: mu_1 and mu_2 as they were.
        num_taken_back: spot instances that were taken away.
        num_died: workers that died of something else.
    """

    outcome: SpotOutcome
    adapter: Path | None
    note: str
    overhead: MeasuredOverhead
    num_taken_back: int
    num_died: int


def make_report(state: SpotRunState, job: SpotJob, total_rows: int, adapter: Path) -> SpotRunReport:
    """The report of a run that has ended.

    Args:
        state: of the run.
        job: that was run.
        total_rows: its whole workload.
        adapter: where it lies if all went well.
    """
    assert state.ended is not None
    return SpotRunReport(
        outcome=_outcome(state, job, total_rows),
        adapter=adapter if state.ended["state"] == "done" else None,
        note=state.ended["note"],
        overhead=measure_overhead(state.slots),
        num_taken_back=state.num_taken_back,
        num_died=state.num_died,
    )


def _outcome(state: SpotRunState, job: SpotJob, total_rows: int) -> SpotOutcome:
    assert state.ended is not None
    finish = float(state.ended["finish"])
    ending = 0.0
    if state.ending is not None:
        # All slots up to the deadline were begun, so there is one to know the price from.
        price = state.slots[-1].observation.on_demand_price
        held = state.held_slots if state.held else finish - job.deadline
        ending = price * job.n_max * held
    return SpotOutcome(
        allocations=tuple(record.allocation for record in state.slots),
        progress=tuple(
            float(job.workload) * record.rows / total_rows
            for record in state.slots
            if record.rows is not None
        ),
        slot_cost=state.slot_cost,
        ending_cost=ending,
        finish=finish,
        value=value_of_finish(job, finish) if state.ended["state"] == "done" else 0.0,
    )


def write_bill(path: Path, state: SpotRunState, job: SpotJob, report: SpotRunReport) -> None:
    """Write what was held and paid, for people, as JSON; money in the market's unit."""
    outcome = report.outcome
    bill = {
        "slots": [_line(state, number) for number in range(len(state.slots))],
        "slot_cost": outcome.slot_cost,
        "ending_slots": max(0.0, outcome.finish - job.deadline),
        "ending_cost": outcome.ending_cost,
        "cost": outcome.cost,
        "finish": outcome.finish,
        "value": outcome.value,
        "utility": outcome.utility,
        "overhead": {"assumed": asdict(job.overhead), "measured": asdict(report.overhead)},
        "taken_back": report.num_taken_back,
        "died": report.num_died,
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
        "taken_back": record.taken_back,
        "paid": record.paid,
        "rows": record.rows,
    }
