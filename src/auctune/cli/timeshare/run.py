"""`auctune timeshare run`: threads that share a device, until each has its loss or is too late."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from auctune.cli._support.errors import resumable
from auctune.domain.errors import InputError

if TYPE_CHECKING:
    from auctune.run.timeshare.folder import PoolFolder
    from auctune.run.timeshare.order import PoolOrder
    from auctune.run.timeshare.report import PoolReport


def run(
    bundle: Annotated[
        Path | None, typer.Argument(help="The bundle: BUNDLE.toml.", show_default=False)
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for what comes out, new.")] = None,
    resume: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Go on with the run in this folder.")
    ] = None,
    saved_every: Annotated[
        float, typer.Option(min=0, help="Seconds between checkpoints of a thread.")
    ] = 30.0,
) -> None:
    """Train threads to their losses by their deadlines, on one device.

    Leaves what each has learned, and a report. Stopped at any moment, it goes on with --resume.
    """
    _check(bundle, out, resume)
    from rich.console import Console

    from auctune.cli.timeshare.watching import Watching

    console = Console(highlight=False)
    # torch takes seconds to import.
    with console.status("starting"):
        from auctune.run.timeshare.folder import PoolFolder
        from auctune.run.timeshare.from_file import keep_bundle, kept_beside
        from auctune.run.timeshare.job import nothing, run_pool

    place = PoolFolder(out or resume or Path())
    with resumable("timeshare run", place.root, place.bundle.is_file):
        if bundle is None:
            # What was stopped before it began begins now.
            begun, prepare = place.is_begun, nothing
            order = _order(place.bundle, kept_beside(place))
        else:
            begun, prepare = False, partial(keep_bundle, bundle, place)
            order = _order(bundle, bundle.resolve().parent)
        with Watching(console) as watching:
            report = run_pool(
                order,
                place.root,
                listener=watching,
                resume=begun,
                saved_every=saved_every,
                prepare=prepare,
            )
    _show(report, place)


def _order(bundle: Path, beside: Path) -> "PoolOrder":
    from auctune.run.base_cache import base_cache
    from auctune.run.timeshare.from_file import make_order
    from auctune.sim.timeshare.bundle_file import read_bundle_file
    from auctune.train.timeshare.estimators import ESTIMATORS

    file = read_bundle_file(bundle, ESTIMATORS)
    return make_order(file, bundle, beside, base_cache())


def _show(report: "PoolReport", place: "PoolFolder") -> None:
    figures = report.figures
    for thread in figures["threads"]:
        how = f"done at {thread['finish']:g}" if thread["done"] else "missed"
        typer.echo(f"{thread['name']}: {how} of {thread['deadline']}, {thread['batches']} batches")
    typer.echo(f"{figures['done']} of {figures['threads_total']} threads done")
    for note in figures["notes"]:
        typer.echo(f"note: {note}")
    typer.echo(f"report:  {place.report}")
    if figures["done"]:
        typer.echo(f"results: {place.root / 'results'}/")


def _check(bundle: Path | None, out: Path | None, resume: Path | None) -> None:
    if resume is not None:
        if bundle is not None or out is not None:
            raise InputError("--resume", "is given with other arguments", "--resume DIR alone")
        return
    if bundle is None:
        raise InputError("BUNDLE.toml", "is missing", "a bundle file, or --resume DIR")
    if out is None:
        raise InputError("--out", "is missing", "a folder for what comes out")
