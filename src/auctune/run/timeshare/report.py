"""What came of a run: report.json for programs, report.html for people.

report.json:

| key | value |
| --- | --- |
| version | 1 |
| allocator, unit_seconds | how threads shared; seconds a unit, null if units were counted |
| done, threads_total | threads that reached their threshold in time, of how many |
| units | that were trained |
| overrun | the most by which a unit ended late, in units |
| switching | {suspended, resumed, seconds}: threads that left and came back |
| most_bytes | in use on the device at most, by the threads' own count |
| threads | [{name, start, deadline, threshold, done, finish, batches, batches_per_unit, memory_bytes, received, seconds, losses [{time, share, batches, loss}]}] |
| notes | texts |

A loss that is not finite is null, as is what does not apply.
"""  # noqa: E501 (a table's row cannot be broken)

import json
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from auctune.atomic_files import clean_temp_files, write_atomically
from auctune.run.timeshare.folder import PoolFolder
from auctune.run.timeshare.report_page import render_page
from auctune.run.timeshare.state import PoolState
from auctune.timeshare.allocator import BundleOutcome

VERSION = 1


@dataclass(frozen=True, slots=True, eq=False)
class PoolReport:
    """What came of a run.

    Attributes:
        outcome: as a simulation would say it.
        figures: as report.json has them.
    """

    outcome: BundleOutcome
    figures: dict[str, Any]


def make_report(state: PoolState) -> PoolReport:
    """The report of a run that has ended."""
    assert state.ended is not None
    return PoolReport(_outcome(state), _figures(state, state.ended))


def write_report(report: PoolReport, place: PoolFolder) -> None:
    """Write both files."""
    for path, data in (
        (place.figures, json.dumps(report.figures, indent=2).encode() + b"\n"),
        (place.report, render_page(report.figures).encode()),
    ):
        clean_temp_files(path)
        write_atomically(path, data)


def _outcome(state: PoolState) -> BundleOutcome:
    shape = (len(state.units), len(state.threads))
    learned = np.array([unit.batches > 0 for unit in state.units]).reshape(shape)
    before = np.vstack([np.zeros((1, shape[1]), dtype=np.bool_), learned[:-1]])
    return BundleOutcome(
        done=state.done.copy(),
        finish=state.finish.copy(),
        samples=state.samples.copy(),
        shares=np.array([unit.shares for unit in state.units]).reshape(shape),
        losses=np.array([unit.losses for unit in state.units]).reshape(shape),
        switches=int((learned & ~before).sum()),
    )


def _figures(state: PoolState, ended: dict[str, Any]) -> dict[str, Any]:
    return {
        "version": VERSION,
        "allocator": state.begun["allocator"],
        "unit_seconds": state.begun["unit_seconds"],
        "done": int(state.done.sum()),
        "threads_total": len(state.threads),
        "units": len(state.units),
        "overrun": max((unit.moment - unit.time - 1 for unit in state.units), default=0.0),
        "switching": {
            "suspended": ended["suspended"],
            "resumed": ended["resumed"],
            "seconds": ended["switch_seconds"],
        },
        "most_bytes": ended["most_bytes"],
        "threads": [_thread(state, index) for index in range(len(state.threads))],
        "notes": state.notes,
    }


def _thread(state: PoolState, index: int) -> dict[str, Any]:
    thread = state.threads[index]
    return {
        "name": thread.id,
        "start": thread.start,
        "deadline": thread.deadline,
        "threshold": thread.threshold,
        "done": bool(state.done[index]),
        "finish": float(state.finish[index]) if state.done[index] else None,
        "batches": int(state.samples[index]),
        "batches_per_unit": float(state.rates[index]),
        "memory_bytes": state.memory[index],
        "received": float(state.received[index]),
        "seconds": math.fsum(float(unit.seconds[index]) for unit in state.units),
        "losses": [
            {
                "time": unit.time,
                "share": float(unit.shares[index]),
                "batches": int(unit.batches[index]),
                "loss": _finite(float(unit.losses[index])),
            }
            for unit in state.units
        ],
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
