"""`auctune run`: run a market file, from bids to trained adapters."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from auctune.cli._support.errors import require_extras
from auctune.cli._support.runs import NewRunFolder, Resume, resumable, run_folder
from auctune.engine.market.market_file import read_market


def run(
    context: typer.Context,
    market: Annotated[
        Path | None,
        typer.Argument(metavar="MARKET.toml", help="The market file.", show_default=False),
    ] = None,
    out: NewRunFolder = None,
    resume: Resume = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Delete an earlier run in --out first.")
    ] = False,
) -> None:
    """Run a market file without a service: decide, train, export.

    Writes decisions, adapters, receipts, loss curves and a report with charts. Resume a run that
    was stopped or killed with --resume; its decisions and payments stay the same.
    """
    required = {"MARKET.toml": (market, "a market file, or --resume DIR")}
    folder = run_folder(context, out, resume, required)
    if market is not None:
        # Report errors in the file before the slow import of torch.
        read_market(market)
    require_extras("auctune run", "service", "train")
    console = Console(highlight=False)
    with console.status("starting"):
        from auctune.engine.console import render_summary
        from auctune.standalone.folder import RunFolder
        from auctune.standalone.market import resume_market, run_market

    with resumable("run", folder, RunFolder(folder).exists):
        if market is None:
            report = resume_market(folder, console)
        else:
            report = run_market(market, folder, console, fresh=fresh)
    console.print()
    console.print(render_summary(report))
    typer.echo(f"adapters and receipts: {folder / 'tasks'}/")
    typer.echo(f"report with charts:    {folder / 'report.html'}")
