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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import accumulate
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from auctune.atomic_files import clean_temp_files, write_atomically
from auctune.charts import LossCurve, Palette, loss_chart, to_figure, utilization_map
from auctune.charts.losses import MAX_PANELS
from auctune.charts.theme import AnyChart
from auctune.run.pool.events import (
    JobNoted,
    PoolEnded,
    PoolEvent,
    PoolStarted,
    QuantumTrained,
)
from auctune.run.pool.state import JobSetState, Member, PoolState
from auctune.run.report_parts import card, notes_card, page_style
from auctune.timeshare.allocator import BundleOutcome

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
    before = np.vstack([np.zeros((1, shape[1]), dtype=np.bool_), trained[:-1]])
    return BundleOutcome(
        done=jobs.done,
        finish=jobs.finish,
        samples=jobs.samples,
        shares=np.array([quantum.shares for quantum in quanta]).reshape(shape),
        losses=np.array([quantum.losses for quantum in quanta]).reshape(shape),
        switches=int((trained & ~before).sum()),
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


WIDE, NARROW = 1040, 336

_PAGE = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>$heading: auctune</title>
<style>
$style
</style>
</head>
<body>
<header>
<p class="kicker">auctune time sharing</p>
<h1>$heading</h1>
<p class="facts">$facts</p>
</header>
<main>
$sections
</main>
<footer>All numbers of this page are in <code>report.json</code> beside it.</footer>
</body>
</html>
""")


def render_page(figures: dict[str, Any]) -> str:
    """Return the page, complete: styles and charts inside, every text escaped.

    Args:
        figures: as report.json has them.
    """
    return _PAGE.substitute(
        heading=f"{figures['done']} of {figures['threads_total']} threads done",
        style=page_style(),
        facts=" · ".join(escape(fact) for fact in _facts(figures)),
        sections="\n".join(_sections(figures)),
    )


def _facts(figures: dict[str, Any]) -> Iterator[str]:
    yield figures["allocator"]
    length = figures["unit_seconds"]
    yield f"{figures['units']} units" + ("" if length is None else f" of {length:g} s")
    switching = figures["switching"]
    if switching["resumed"]:
        yield f"{switching['resumed']} threads brought back, {switching['seconds']:.2f} s"
    yield f"{figures['most_bytes'] / 1e6:.1f} MB in use at most"


def _sections(figures: dict[str, Any]) -> Iterator[str]:
    if figures["notes"]:
        yield notes_card(figures["notes"])
    yield card("Threads", "", _table(figures))
    if figures["units"]:
        yield card("Shares", "Of the pool, by unit of time.", _shares(figures))
    if losses := _losses(figures):
        yield card("Loss by batches trained", _caption(figures), losses)


def _table(figures: dict[str, Any]) -> str:
    columns = ("Threshold", "Last loss", "Deadline", "Done at", "Batches", "Batches a unit")
    head = "".join(f'<th scope="col" class="number">{column}</th>' for column in columns)
    rows = "".join(_row(thread) for thread in figures["threads"])
    return (
        f'<table><thead><tr><th scope="col">Thread</th>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table>"
    )


def _row(thread: dict[str, Any]) -> str:
    losses = [one["loss"] for one in thread["losses"] if one["loss"] is not None]
    cells = (
        f"{thread['threshold']:g}",
        f"{losses[-1]:.4g}" if losses else "none",
        f"{thread['deadline']}",
        f"{thread['finish']:g}" if thread["done"] else "missed",
        f"{thread['batches']:,}",
        f"{thread['batches_per_unit']:.1f}",
    )
    data = "".join(f'<td class="number">{cell}</td>' for cell in cells)
    return f'<tr><th scope="row">{escape(thread["name"])}</th>{data}</tr>'


def _shares(figures: dict[str, Any]) -> str:
    threads = figures["threads"]
    units = threads[0]["losses"]
    # Units in which nothing could be trained have no round, but a place on the axis.
    values = np.zeros((units[-1]["time"] + 1, len(threads)))
    for column, thread in enumerate(threads):
        for unit in thread["losses"]:
            values[unit["time"], column] = unit["share"]
    names = tuple(thread["name"] for thread in threads)

    def draw(palette: Palette, width: int) -> AnyChart:
        return utilization_map(values, names, "share", palette, width=width)

    text = f"Heat map of the shares of {len(threads)} threads"
    return to_figure(draw, "shares", wide=WIDE, narrow=NARROW, alt_text=text)


def _caption(figures: dict[str, Any]) -> str:
    dashed = len(figures["threads"]) <= MAX_PANELS
    return "Means over units of time" + ("; dashed: the threshold." if dashed else ".")


def _losses(figures: dict[str, Any]) -> str:
    curves = [_curve(thread) for thread in figures["threads"]]
    curves = [curve for curve in curves if curve.is_drawable]
    if not curves:
        return ""

    def draw(palette: Palette, width: int) -> AnyChart:
        return loss_chart(curves, palette, width=width)

    text = f"Loss curves of {len(curves)} threads"
    return to_figure(draw, "losses", wide=WIDE, narrow=NARROW, alt_text=text)


def _curve(thread: dict[str, Any]) -> LossCurve:
    batches = accumulate(unit["batches"] for unit in thread["losses"])
    points = zip(batches, thread["losses"], strict=True)
    return LossCurve(
        task=thread["name"],
        training=tuple((at, unit["loss"]) for at, unit in points if unit["loss"] is not None),
        threshold=thread["threshold"],
    )
