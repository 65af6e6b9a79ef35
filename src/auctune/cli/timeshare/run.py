"""`auctune timeshare run` and `record`: train threads on a shared device, record loss curves."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self

import typer
from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from auctune.cli._support.errors import INTERRUPTED
from auctune.cli._support.runs import NewRunFolder, Resume, resumable, run_folder
from auctune.domain.errors import InputError
from auctune.run.base_cache import base_cache
from auctune.run.timeshare.folder import PoolFolder
from auctune.run.timeshare.foresight import ThreadView
from auctune.sim.timeshare.bundle_file import read_bundle_file
from auctune.train.timeshare.estimators import ESTIMATORS

if TYPE_CHECKING:
    from auctune.run.timeshare.order import PoolOrder
    from auctune.run.timeshare.report import PoolReport
    from auctune.run.timeshare.state import UnitRecord
    from auctune.train.timeshare.recording import Recording

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


def record(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME", help="Curves to record. Default: all missing in the folder."
        ),
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the curves.")] = Path(
        "curves"
    ),
    batches: Annotated[
        int | None, typer.Option(min=1, help="Batches per curve. Default: about a minute's.")
    ] = None,
) -> None:
    """Record loss curves of the synthetic tasks.

    Each of the fifteen tasks, the threads of Tables 1 and 2 of Wang et al. (ICML 2024), is trained
    alone. Repeat the command to continue a stopped recording with the next curve.
    """
    from auctune.train.timeshare.curve_file import read_manifest
    from auctune.train.timeshare.recording import RECORDINGS, record_all

    out.mkdir(parents=True, exist_ok=True)
    recorded = [entry["name"] for entry in read_manifest(out)]
    chosen = _choose(RECORDINGS, names or [], recorded)
    if batches is not None:
        chosen = [replace(recording, batches=batches) for recording in chosen]
    console = Console(highlight=False)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    disabled = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=disabled) as bar:
        task = bar.add_task("recording", total=None)

        def update(recording: "Recording", done: int) -> None:
            bar.update(task, description=recording.name, total=recording.batches, completed=done)

        try:
            for entry in record_all(chosen, out, update):
                console.print(
                    f"{entry['name']}: {entry['batches']} batches, "
                    f"{entry['batches_per_second']:g} a second, loss {entry['last_loss']:g}"
                )
        except KeyboardInterrupt:
            typer.echo("stopped; finished curves are stored", err=True)
            raise typer.Exit(INTERRUPTED) from None
    typer.echo(f"curves: {out}/")


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

    return make_order(read_bundle_file(bundle, ESTIMATORS), bundle, beside, base_cache())


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


def _choose(
    recordings: "Sequence[Recording]", names: list[str], recorded: list[str]
) -> "list[Recording]":
    """Return the named recordings, or those that are missing."""
    available = [recording.name for recording in recordings]
    for name in names:
        if name not in available:
            raise InputError("NAMES", repr(name), f"some of {', '.join(available)}")
    names = names or [name for name in available if name not in recorded]
    return [one for one in recordings if one.name in names]
