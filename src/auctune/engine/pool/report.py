"""Report of a bundle's run: report.json for programs, report.html for people.

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
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from auctune.atomic_files import clean_temp_files, write_atomically
from auctune.charts import LossCurve, utilization_map
from auctune.charts.losses import MAX_PANELS
from auctune.engine.pool.epoch import JobSetState
from auctune.engine.pool.events import (
    JobNoted,
    Member,
    PoolEnded,
    PoolEvent,
    PoolStarted,
    PoolState,
    QuantumTrained,
)
from auctune.engine.report import figure, loss_figure, render_template
from auctune.timeshare.allocator import BundleOutcome, count_switches

VERSION = 1


@dataclass(frozen=True, slots=True, eq=False)
class PoolReport:
    """Report of a run that has ended.

    Attributes:
        outcome: as a simulation returns it.
        figures: as report.json has them.
    """

    outcome: BundleOutcome
    figures: dict[str, Any]


def make_report(events: Sequence[PoolEvent]) -> PoolReport:
    """Return the report of a run that has ended, from its log."""
    started, ended = events[0], events[-1]
    assert isinstance(started, PoolStarted)
    assert isinstance(ended, PoolEnded)
    members = PoolState.fold(events).members
    jobs = JobSetState(list(members.values()))
    quanta = [event for event in events if isinstance(event, QuantumTrained)]
    for quantum in quanta:
        jobs.apply(quantum)
    figures = {
        "version": VERSION,
        "allocator": started.allocator,
        "unit_seconds": started.quantum_seconds,
        "done": int(jobs.done.sum()),
        "threads_total": len(members),
        "units": len(quanta),
        "overrun": max((quantum.moment - quantum.time - 1 for quantum in quanta), default=0.0),
        "switching": {
            "suspended": ended.suspended,
            "resumed": ended.resumed,
            "seconds": ended.switch_seconds,
        },
        "most_bytes": ended.max_bytes,
        "threads": [
            _job_figures(member, jobs, index, quanta)
            for index, member in enumerate(members.values())
        ],
        "notes": [f"{event.id}: {event.text}" for event in events if isinstance(event, JobNoted)],
    }
    return PoolReport(_outcome(jobs, quanta), figures)


def write_report(report: PoolReport, folder: Path) -> None:
    """Write both files."""
    for path, data in (
        (folder / "report.json", json.dumps(report.figures, indent=2).encode() + b"\n"),
        (report_page(folder), render_page(report.figures).encode()),
    ):
        clean_temp_files(path)
        write_atomically(path, data)


def report_page(folder: Path) -> Path:
    """Return where the report for people is."""
    return folder / "report.html"


def _outcome(jobs: JobSetState, quanta: Sequence[QuantumTrained]) -> BundleOutcome:
    shape = (len(quanta), len(jobs.names))
    trained = np.array([np.array(quantum.batches) > 0 for quantum in quanta]).reshape(shape)
    return BundleOutcome(
        done=jobs.done,
        finish=jobs.finish,
        samples=jobs.samples,
        shares=np.array([quantum.shares for quantum in quanta]).reshape(shape),
        losses=np.array([quantum.losses for quantum in quanta]).reshape(shape),
        switches=count_switches(trained),
    )


def _job_figures(
    member: Member, jobs: JobSetState, index: int, quanta: Sequence[QuantumTrained]
) -> dict[str, Any]:
    thread = member.thread
    return {
        "name": thread.id,
        "start": thread.start,
        "deadline": thread.deadline,
        "threshold": thread.threshold,
        "done": bool(jobs.done[index]),
        "finish": float(jobs.finish[index]) if jobs.done[index] else None,
        "batches": int(jobs.samples[index]),
        "batches_per_unit": float(jobs.rates[index]),
        "memory_bytes": member.memory_bytes,
        "received": float(jobs.received[index]),
        "seconds": math.fsum(quantum.seconds[index] for quantum in quanta),
        "losses": [
            {
                "time": quantum.time,
                "share": quantum.shares[index],
                "batches": quantum.batches[index],
                "loss": quantum.losses[index] if math.isfinite(quantum.losses[index]) else None,
            }
            for quantum in quanta
        ],
    }


def render_page(figures: dict[str, Any]) -> str:
    """Return the page of a run, from the contents of report.json."""
    threads, length, switching = figures["threads"], figures["unit_seconds"], figures["switching"]
    facts = [
        figures["allocator"],
        f"{figures['units']} units" + ("" if length is None else f" of {length:g} s"),
        f"{figures['most_bytes'] / 1e6:.1f} MB in use at most",
    ]
    if switching["resumed"]:
        facts.insert(
            2, f"{switching['resumed']} threads brought back, {switching['seconds']:.2f} s"
        )
    return render_template(
        "pool_report.html",
        heading=f"{figures['done']} of {figures['threads_total']} threads done",
        facts=facts,
        figures=figures,
        charts={
            "shares": _shares(threads) if figures["units"] else None,
            "losses": loss_figure([_curve(thread) for thread in threads], "threads"),
        },
        has_thresholds=len(threads) <= MAX_PANELS,
    )


def _shares(threads: list[dict[str, Any]]) -> Markup:
    units = threads[0]["losses"]
    # Units in which nothing could be trained have no round, but a place on the axis.
    values = np.zeros((units[-1]["time"] + 1, len(threads)))
    for column, thread in enumerate(threads):
        for unit in thread["losses"]:
            values[unit["time"], column] = unit["share"]
    names = tuple(thread["name"] for thread in threads)
    draw = partial(utilization_map, values, names, "share")
    return figure(draw, "shares", f"Heat map of the shares of {len(threads)} threads")


def _curve(thread: dict[str, Any]) -> LossCurve:
    batches = accumulate(unit["batches"] for unit in thread["losses"])
    points = zip(batches, thread["losses"], strict=True)
    return LossCurve(
        task=thread["name"],
        training=tuple((at, unit["loss"]) for at, unit in points if unit["loss"] is not None),
        threshold=thread["threshold"],
    )
