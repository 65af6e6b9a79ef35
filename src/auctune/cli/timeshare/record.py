"""`auctune timeshare record`: the loss curves of the stand-ins."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from auctune.cli._support.errors import INTERRUPTED
from auctune.domain.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from auctune.train.timeshare.recording import Recording


def record(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Curves to record; none: all that the folder has not."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of the curves.")] = Path("curves"),
    batches: Annotated[
        int | None, typer.Option(min=1, help="Batches of each; none: about a minute's.")
    ] = None,
) -> None:
    """Train stand-ins, each alone, and record their loss curves.

    Fifteen of them: Tables 1 and 2 of Wang et al. (ICML 2024), thread by thread. What is stopped
    goes on with the next curve when the command is given again.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from auctune.train.timeshare.curve_file import read_manifest
    from auctune.train.timeshare.recording import RECORDINGS, Recording, record_all

    out.mkdir(parents=True, exist_ok=True)
    known = [entry["name"] for entry in read_manifest(out)]
    chosen = _chosen(RECORDINGS, names or [], known)
    if batches is not None:
        chosen = [replace(recording, batches=batches) for recording in chosen]
    console = Console(highlight=False)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("recording", total=None)

        def listen(recording: Recording, done: int) -> None:
            bar.update(task, description=recording.name, total=recording.batches, completed=done)

        try:
            for entry in record_all(chosen, out, listen):
                console.print(
                    f"{entry['name']}: {entry['batches']} batches, "
                    f"{entry['batches_per_second']:g} a second, loss {entry['last_loss']:g}"
                )
        except KeyboardInterrupt:
            typer.echo("stopped; what is recorded stays", err=True)
            raise typer.Exit(INTERRUPTED) from None
    typer.echo(f"curves: {out}/")


def _chosen(
    recordings: "Sequence[Recording]", names: list[str], known: list[str]
) -> "list[Recording]":
    """The recordings of some names, or those that are not known yet."""
    there = [recording.name for recording in recordings]
    for name in names:
        if name not in there:
            raise InputError("NAMES", repr(name), f"some of {', '.join(there)}")
    return [one for one in recordings if (one.name in names if names else one.name not in known)]
