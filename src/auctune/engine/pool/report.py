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
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from auctune.charts import LossCurve, utilization_map
from auctune.charts.losses import MAX_PANELS
from auctune.engine.messages.pool import MemoryState
from auctune.engine.pool.epoch import JobSetState
from auctune.engine.pool.events import Member, PoolState, QuantumTrained
from auctune.engine.report import figure, loss_figure, render_template
from auctune.files.atomic import clean_temp_files, write_atomically

VERSION = 1


Figures = dict[str, Any]
"""Contents of report.json."""


def make_report(
    state: PoolState,
    allocator: str,
    unit_seconds: float | None,
    memory: MemoryState,
    notes: Sequence[str],
) -> Figures:
    """Return the report of a run that has ended.

    Args:
        state: of its pool; all jobs are members.
        allocator: its name.
        unit_seconds: length of a unit, or None if units were counted.
        memory: of the device.
        notes: with the names of their jobs.
    """
    jobs, quanta = JobSetState(list(state.members.values())), state.quanta
    for quantum in quanta:
        jobs.apply(quantum)
    return {
        "version": VERSION,
        "allocator": allocator,
        "unit_seconds": unit_seconds,
        "done": int(jobs.done.sum()),
        "threads_total": len(jobs.names),
        "units": len(quanta),
        "overrun": max((quantum.moment - quantum.time - 1 for quantum in quanta), default=0.0),
        "switching": {
            "suspended": memory.suspended,
            "resumed": memory.resumed,
            "seconds": memory.seconds,
        },
        "most_bytes": memory.max_bytes,
        "threads": [
            _job_figures(member, jobs, index, quanta)
            for index, member in enumerate(state.members.values())
        ],
        "notes": list(notes),
    }


def read_figures(values: Any) -> Figures:
    """Return the contents of a report.json that this version can show.

    Raises:
        ValueError, TypeError, KeyError: if they are of another version.
    """
    if values["version"] != VERSION:
        raise ValueError(f"report of version {values['version']}; expected {VERSION}")
    return dict(values)


def write_report(figures: Figures, folder: Path) -> None:
    """Write both files."""
    for path, data in (
        (folder / "report.json", json.dumps(figures, indent=2).encode() + b"\n"),
        (report_page(folder), render_page(figures).encode()),
    ):
        clean_temp_files(path)
        write_atomically(path, data)


def report_page(folder: Path) -> Path:
    """Return where the report for people is."""
    return folder / "report.html"


def _job_figures(
    member: Member, jobs: JobSetState, index: int, quanta: Sequence[QuantumTrained]
) -> Figures:
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


def render_page(figures: Figures) -> str:
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


def _shares(threads: list[Figures]) -> Markup:
    units = threads[0]["losses"]
    # Units in which nothing could be trained have no round, but a place on the axis.
    values = np.zeros((units[-1]["time"] + 1, len(threads)))
    for column, thread in enumerate(threads):
        for unit in thread["losses"]:
            values[unit["time"], column] = unit["share"]
    names = tuple(thread["name"] for thread in threads)
    draw = partial(utilization_map, values, names, "share")
    return figure(draw, "shares", f"Heat map of the shares of {len(threads)} threads")


def _curve(thread: Figures) -> LossCurve:
    batches = accumulate(unit["batches"] for unit in thread["losses"])
    points = zip(batches, thread["losses"], strict=True)
    return LossCurve(
        task=thread["name"],
        training=tuple((at, unit["loss"]) for at, unit in points if unit["loss"] is not None),
        threshold=thread["threshold"],
    )
