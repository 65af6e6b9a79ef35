"""`auctune run`: run a market file, from bids to trained adapters."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from auctune.cli._support.errors import refuse_with_resume, resumable
from auctune.cli._support.options import Resume
from auctune.domain.errors import InputError
from auctune.run.folder import RunFolder
from auctune.run.market.market_file import read_market


def run(
    context: typer.Context,
    market: Annotated[
        Path | None, typer.Argument(help="The market: a TOML file.", show_default=False)
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the run.")] = None,
    resume: Resume = None,
    fresh: Annotated[bool, typer.Option(help="Delete an earlier run in --out.")] = False,
) -> None:
    """Run a market file without a service: decide, train, export.

    Writes decisions, adapters, receipts, loss curves and a report with charts. A run that was
    stopped or killed is resumed with --resume, and ends with the same decisions and payments.
    """
    if resume is not None:
        refuse_with_resume(context)
        folder = resume
    else:
        folder = _check_given(market, out)
    if market is not None:
        # Errors in the file are shown before torch is imported.
        read_market(market)
    console = Console(highlight=False)
    # torch takes seconds to import.
    with console.status("starting"):
        from auctune.run.main_job import resume_market, run_market
        from auctune.run.report_summary import render_summary

    with resumable("run", folder, RunFolder(folder).exists):
        if market is None:
            report = resume_market(folder, console)
        else:
            report = run_market(market, folder, console, fresh=fresh)
    console.print()
    console.print(render_summary(report))
    typer.echo(f"adapters and receipts: {folder / 'tasks'}/")
    typer.echo(f"report with charts:    {folder / 'report.html'}")


def _check_given(market: Path | None, out: Path | None) -> Path:
    if market is None:
        raise InputError("MARKET.toml", "is missing", "a market file, or --resume DIR")
    if out is None:
        raise InputError("--out", "is missing", "a folder for the run")
    return out
