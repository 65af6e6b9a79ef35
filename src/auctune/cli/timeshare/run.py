"""`auctune timeshare run`: train jobs on a shared device."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from auctune.cli._support.runs import NewRunFolder, Resume, resumable, run_folder
from auctune.run.base_cache import base_cache
from auctune.run.timeshare.folder import PoolFolder
from auctune.run.timeshare.foresight import ThreadView
from auctune.sim.timeshare.bundle_file import read_bundle_file

if TYPE_CHECKING:
    from auctune.run.timeshare.order import PoolOrder
    from auctune.run.timeshare.report import PoolReport
    from auctune.run.timeshare.state import UnitRecord

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
) -> None:
    """Train threads to their target losses on one device.

    A thread ends at its target loss or its deadline. Writes the trained models and a report. Resume
    a run that was stopped or killed with --resume.
    """
    required = {"BUNDLE.toml": (bundle, "a bundle file, or --resume DIR")}
    folder = PoolFolder(run_folder(context, out, resume, required, allowed=("saved_every",)))
    console = Console(highlight=False)
    with console.status("starting"):
        from auctune.run.timeshare.from_file import keep_bundle, kept_beside
        from auctune.run.timeshare.job import nothing, run_pool

    with resumable("timeshare run", folder.root, folder.bundle.is_file):
        if bundle is None:
            # A run that was stopped before its start starts now.
            begun, prepare = folder.has_started, nothing
            order = _read_order(folder.bundle, kept_beside(folder))
        else:
            begun, prepare = False, partial(keep_bundle, bundle, folder)
            order = _read_order(bundle, bundle.resolve().parent)
        with RunDisplay(console) as display:
            report = run_pool(
                order,
                folder.root,
                listener=display,
                resume=begun,
                saved_every=saved_every,
                prepare=prepare,
            )
    _print_report(report, folder)


class RunDisplay:
    """Listener of a run (`PoolListener`): a live table on a terminal, else lines on verdicts.

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

    def unit_done(self, unit: "UnitRecord", views: Sequence[ThreadView]) -> None:
        if self._console.is_terminal:
            self._live.update(_thread_table(unit.time, views), refresh=True)
            return
        for view in views:
            if self._verdicts.get(view.name) != view.verdict:
                self._verdicts[view.name] = view.verdict
                loss = "" if view.loss is None else f", loss {view.loss:.4g}"
                self._console.print(
                    f"unit {unit.time:4d}  {view.name}: {view.verdict}, "
                    f"{view.batches} batches{loss}"
                )

    def noted(self, text: str) -> None:
        self._console.print(text, style="yellow", markup=False)


def _thread_table(time: int, views: Sequence[ThreadView]) -> Table:
    table = Table(title=f"unit {time}", title_justify="left")
    table.add_column("thread", no_wrap=True)
    for name in ("share", "batches", "loss", "target", "finish", "deadline"):
        table.add_column(name, justify="right")
    table.add_column("verdict")
    for view in views:
        table.add_row(
            Text(view.name),
            f"{view.share:.0%}" if view.share else "-",
            f"{view.batches:,}",
            "-" if view.loss is None else f"{view.loss:.4g}",
            f"{view.threshold:g}",
            "-" if view.finish is None else f"{view.finish:,.0f}",
            f"{view.deadline}",
            Text(view.verdict, style=_COLOURS.get(view.verdict, "")),
        )
    return table


def _read_order(bundle: Path, beside: Path) -> "PoolOrder":
    from auctune.run.timeshare.from_file import make_order

    return make_order(read_bundle_file(bundle), bundle, beside, base_cache())


def _print_report(report: "PoolReport", folder: PoolFolder) -> None:
    figures = report.figures
    for thread in figures["threads"]:
        end = f"done at {thread['finish']:g}" if thread["done"] else "missed"
        typer.echo(f"{thread['name']}: {end} of {thread['deadline']}, {thread['batches']} batches")
    typer.echo(f"{figures['done']} of {figures['threads_total']} threads done")
    for note in figures["notes"]:
        typer.echo(f"note: {note}")
    typer.echo(f"report:  {folder.report}")
    if figures["done"]:
        typer.echo(f"results: {folder.root / 'results'}/")
