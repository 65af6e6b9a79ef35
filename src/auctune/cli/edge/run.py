"""`auctune edge run`: admitted jobs trained on Ray, slot by slot, to a bill."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from auctune.cli._support.errors import refuse_with_resume, resumable
from auctune.cli._support.progress import warn_compiling
from auctune.domain.errors import InputError

if TYPE_CHECKING:
    from auctune.run.edge.folder import EdgeFolder
    from auctune.run.edge.report import EdgeRunReport


def run(
    context: typer.Context,
    instance: Annotated[
        Path | None,
        typer.Argument(help="The market and its jobs (JSON).", show_default=False),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for what comes out, new.")] = None,
    training: Annotated[
        Path | None, typer.Option(help="How jobs train (TOML); none: a small network on digits.")
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Go on with the run in this folder.")
    ] = None,
    mechanism: Annotated[
        str, typer.Option(metavar="NAME[:KEY=VALUE...]", help="Eris, with its settings.")
    ] = "eris",
    ray: Annotated[
        str | None,
        typer.Option(help="Address of a cluster with a node a site; none: one is started."),
    ] = None,
    device: Annotated[str, typer.Option(help="Of workers: cpu or cuda.")] = "cpu",
) -> None:
    """Answer bids and train the admitted jobs where their data are.

    Sites are Ray nodes, all on this machine unless --ray names a cluster. A slot lasts as long as
    the work in it. Stopped at any moment, a run goes on with --resume, of which the folder holds
    all it needs. A site whose node dies is lost: its jobs are planned anew, or refunded.
    """
    if resume is None:
        _check_given(instance, out, device)
    else:
        refuse_with_resume(context)

    from rich.console import Console

    console = Console(highlight=False)
    # torch takes seconds to import.
    with console.status("starting"):
        _need_ray()
        from auctune.run.edge.folder import EdgeFolder
        from auctune.run.edge.inputs import has_inputs, keep_inputs, kept_inputs, read_inputs
        from auctune.run.edge.job_data import read_all
        from auctune.run.edge.run import nothing, run_edge

    from auctune.cli.edge.watching import Watching

    place = EdgeFolder(out or resume or Path())
    with resumable("edge run", place.root, partial(has_inputs, place)):
        if instance is None:
            # What was stopped before it began begins now.
            inputs, begun, prepare = kept_inputs(place), place.is_begun, nothing
        else:
            inputs, begun = read_inputs(instance, training, mechanism, device, ray or ""), False
            prepare = partial(keep_inputs, instance, inputs, place)
        data = read_all(inputs.instance.jobs, inputs.recipes)
        warn_compiling("plan_cost", "the edge's")
        with Watching(inputs.instance.market, console) as watching:
            report = run_edge(inputs, data, place, watching, resume=begun, prepare=prepare)
    _show(report, place)


def _show(report: "EdgeRunReport", place: "EdgeFolder") -> None:
    from auctune.cli._support.tables import make_table, print_table

    numbers = ("paid", "refund", "finish", "promised", "accuracy", "traffic MB", "planned MB")
    table = make_table("job", "state", *numbers, right=numbers)
    for bill in report.jobs:
        table.add_row(
            bill.job,
            bill.state,
            f"{bill.payment:,.4f}",
            f"{bill.refund:,.4f}",
            "-" if bill.finish is None else f"{bill.finish}",
            "-" if bill.promised is None else f"{bill.promised}",
            "-" if bill.accuracy is None else f"{bill.accuracy:.1%}",
            f"{bill.counted_mb:,.1f}",
            f"{bill.planned_mb:,.1f}",
        )
    print_table(table)
    for site, slot in report.lost.items():
        typer.echo(f"site {site} was lost, and runs nothing from slot {slot} on")
    typer.echo(f"welfare {report.welfare:,.1f}, income {report.income:,.4f}")
    typer.echo(f"report: {place.report}")


def _need_ray() -> None:
    import importlib.util

    missing = [name for name in ("ray", "torch", "PIL") if importlib.util.find_spec(name) is None]
    if missing:
        found = f"need {', '.join(missing)}, which are not installed"
        raise InputError("real runs of the edge", found, "pip install 'auctune[train,ray]'")


def _check_given(instance: Path | None, out: Path | None, device: str) -> None:
    if instance is None:
        raise InputError("INSTANCE", "is missing", "an instance, or --resume DIR")
    if out is None:
        raise InputError("--out", "is missing", "a folder for what comes out")
    if device not in ("cpu", "cuda"):
        raise InputError("--device", f"{device!r}", "cpu or cuda")
