"""`auctune timeshare run`: train jobs on a shared device."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from auctune.cli._support.errors import require_extras
from auctune.cli._support.runs import NewRunFolder, Resume, resumable, run_folder
from auctune.engine.base_place import base_cache
from auctune.engine.pool.events import JobNoted, JobOutlook, PoolEvent, QuantumTrained
from auctune.sim.timeshare.bundle_file import read_bundle_file

if TYPE_CHECKING:
    from auctune.engine.pool.bundle import Bundle
    from auctune.engine.pool.report import Figures

_COLOURS = {"done": "green", "in time": "green", "late": "yellow", "missed": "red"}


def run(
    context: typer.Context,
    bundle: Annotated[
        Path | None,
        typer.Argument(metavar="BUNDLE.toml", help="Threads and pool.", show_default=False),
    ] = None,
    out: NewRunFolder = None,
    resume: Resume = None,
    saved_every: Annotated[
        float, typer.Option(min=0, help="Seconds between checkpoints of a thread.")
    ] = 30.0,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Delete an earlier run in --out first.")
    ] = False,
) -> None:
    """Train threads to their target losses on one device.

    A thread ends at its target loss or its deadline. Writes the trained models and a report. Resume
    a run that was stopped or killed with --resume.
    """
    required = {"BUNDLE.toml": (bundle, "a bundle file, or --resume DIR")}
    place = run_folder(context, out, resume, required, allowed=("saved_every",))
    require_extras("auctune timeshare run", "service", "train")
    console = Console(highlight=False)
    with console.status("starting"):
        from auctune.engine.pool.bundle import read_bundle
        from auctune.standalone.timeshare import BundleFolder, resume_bundle, run_bundle

    def read(file: Path, beside: Path) -> "Bundle":
        return read_bundle(read_bundle_file(file), file, beside, base_cache(), saved_every)

    folder = BundleFolder(place)
    with resumable("timeshare run", place, folder.exists), RunDisplay(console) as display:
        if bundle is None:
            figures = resume_bundle(folder, read, display)
        else:
            job_set = read(bundle, bundle.resolve().parent)
            figures = run_bundle(job_set, bundle, folder, display, fresh=fresh)
    _print_report(figures, place)


class RunDisplay:
    """Callback of a run: a live table on a terminal, else lines on changed verdicts.

    A context manager.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False)
        self._verdicts: dict[str, str] = {}

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._console.is_terminal:
            self._live.stop()

    def __call__(self, event: PoolEvent, outlooks: Sequence[JobOutlook]) -> None:
        if isinstance(event, JobNoted):
            self._console.print(f"{event.id}: {event.text}", style="yellow", markup=False)
        elif isinstance(event, QuantumTrained):
            self._show_quantum(event.time, outlooks)

    def _show_quantum(self, time: int, outlooks: Sequence[JobOutlook]) -> None:
        if self._console.is_terminal:
            self._live.update(_thread_table(time, outlooks), refresh=True)
            return
        for one in outlooks:
            if self._verdicts.get(one.id) != one.status:
                self._verdicts[one.id] = one.status
                loss = "" if one.loss is None else f", loss {one.loss:.4g}"
                self._console.print(
                    f"unit {time:4d}  {one.id}: {one.status}, {one.batches} batches{loss}"
                )


def _thread_table(time: int, outlooks: Sequence[JobOutlook]) -> Table:
    table = Table(title=f"unit {time}", title_justify="left")
    table.add_column("thread", no_wrap=True)
    for name in ("share", "batches", "loss", "target", "finish", "deadline"):
        table.add_column(name, justify="right")
    table.add_column("verdict")
    for one in outlooks:
        table.add_row(
            Text(one.id),
            f"{one.share:.0%}" if one.share else "-",
            f"{one.batches:,}",
            "-" if one.loss is None else f"{one.loss:.4g}",
            f"{one.threshold:g}",
            "-" if one.finish is None else f"{one.finish:,.0f}",
            f"{one.deadline}",
            Text(one.status, style=_COLOURS.get(one.status, "")),
        )
    return table


def _print_report(figures: "Figures", folder: Path) -> None:
    from auctune.engine.pool.report import report_page

    for thread in figures["threads"]:
        end = f"done at {thread['finish']:g}" if thread["done"] else "missed"
        typer.echo(f"{thread['name']}: {end} of {thread['deadline']}, {thread['batches']} batches")
    typer.echo(f"{figures['done']} of {figures['threads_total']} threads done")
    for note in figures["notes"]:
        typer.echo(f"note: {note}")
    typer.echo(f"report:  {report_page(folder)}")
    if figures["done"]:
        typer.echo(f"results: {folder / 'results'}/")
