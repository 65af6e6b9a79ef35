"""`auctune edge run`: train the admitted jobs of an edge market at their sites."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from auctune.cli._support.errors import require_extras
from auctune.cli._support.options import LABEL
from auctune.cli._support.progress import warn_compiling
from auctune.cli._support.runs import NewRunFolder, Resume, resumable, run_folder
from auctune.cli._support.tables import make_table, print_table
from auctune.domain.errors import InputError
from auctune.edge.search.forward import plan_cost
from auctune.engine.edge.inputs import read_inputs

if TYPE_CHECKING:
    from auctune.standalone.edge_report import EdgeRunReport


def run(
    context: typer.Context,
    instance: Annotated[
        Path | None,
        typer.Argument(
            metavar="INSTANCE", help="The market and its jobs (JSON).", show_default=False
        ),
    ] = None,
    out: NewRunFolder = None,
    training: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Base, rows and settings of the jobs' training (TOML).",
            show_default=False,
        ),
    ] = None,
    resume: Resume = None,
    mechanism: Annotated[
        str, typer.Option(metavar=LABEL, help="The mechanism: eris, with its settings.")
    ] = "eris",
    ray: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Address of a Ray cluster with a node per site. Default: this machine.",
        ),
    ] = None,
    device: Annotated[
        str, typer.Option(metavar="DEVICE", help="Device of workers: cpu or cuda.")
    ] = "cpu",
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Delete an earlier run in --out first.")
    ] = False,
) -> None:
    """Decide on bids, and train adapters at sites.

    Sites are all on this machine, or nodes of a Ray cluster with --ray. A slot lasts as long as its
    work. Resume a run that was stopped or killed with --resume. If a site fails, the jobs of that
    site are replanned, or refunded.
    """
    required: dict[str, tuple[Path | None, str]] = {
        "INSTANCE": (instance, "an instance, or --resume DIR"),
        "--training": (training, "a TRAINING.toml, or --resume DIR"),
    }
    place = run_folder(context, out, resume, required)
    if device not in ("cpu", "cuda"):
        raise InputError("--device", f"{device!r}", "cpu or cuda")
    console = Console(highlight=False)
    require_extras("auctune edge run", "service", "train", *([] if ray is None else ["ray"]))
    from auctune.standalone.edge import EdgeRunFolder, resume_edge, run_edge
    from auctune.standalone.edge_console import EdgeConsole

    folder = EdgeRunFolder(place)
    with resumable("edge run", place, folder.exists):
        warn_compiling(plan_cost, "the edge's")
        if instance is None or training is None:
            with EdgeConsole(console) as shown:
                report = resume_edge(folder, shown)
        else:
            inputs = read_inputs(instance, training, mechanism, device, ray or "")
            with EdgeConsole(console) as shown:
                report = run_edge(inputs, folder, shown, fresh=fresh)
    _print_report(report)
    typer.echo(f"report: {folder.report}")


def _print_report(report: "EdgeRunReport") -> None:
    from auctune.standalone.edge_console import loss_text

    numbers = ("paid", "refund", "finish", "promised", "loss", "traffic MB", "planned MB")
    table = make_table("job", "state", *numbers, right=numbers)
    for bill in report.jobs:
        table.add_row(
            bill.job,
            bill.state,
            f"{bill.payment:,.4f}",
            f"{bill.refund:,.4f}",
            "-" if bill.finish is None else f"{bill.finish}",
            "-" if bill.promised is None else f"{bill.promised}",
            loss_text(bill.loss if bill.validation_loss is None else bill.validation_loss),
            f"{bill.counted_mb:,.1f}",
            f"{bill.planned_mb:,.1f}",
        )
    print_table(table)
    for site, slot in report.lost.items():
        typer.echo(f"site {site} was lost: no work from slot {slot} on")
    typer.echo(f"welfare {report.welfare:,.1f}, income {report.income:,.4f}")
