"""`auctune run`: bids in, trained adapters out."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from auctune.cli._support.errors import INTERRUPTED
from auctune.domain.errors import InputError


def run(
    market: Annotated[
        Path | None, typer.Argument(help="The market: a TOML file.", show_default=False)
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for what comes out.")] = None,
    resume: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Go on with the run in this folder.")
    ] = None,
    fresh: Annotated[bool, typer.Option(help="Delete an earlier run in --out.")] = False,
) -> None:
    """Run a market file without a service: decide, train, export.

    Leaves decisions, adapters, receipts, loss curves and a report with charts. Stopped at any
    moment, it goes on with --resume and ends with the same decisions and payments.
    """
    _check(market, out, resume, fresh)
    if market is not None:
        # What is wrong in the file shows at once, before torch is imported.
        from auctune.run.market.market_file import read_market

        read_market(market)

    from rich.console import Console

    console = Console(highlight=False)
    # torch takes seconds to import.
    with console.status("starting"):
        from auctune.run.executor import NodeError
        from auctune.run.main_job import resume_market, run_market
        from auctune.run.report_summary import render_summary

    folder = resume or out
    assert folder is not None
    try:
        if resume is not None:
            report = resume_market(resume, console)
        else:
            assert market is not None
            report = run_market(market, folder, console, fresh=fresh)
    except NodeError as error:
        hint = f"; {_how_to_resume(folder)}" if _has_begun(folder) else ""
        raise NodeError(f"{error}{hint}") from None
    except KeyboardInterrupt:
        if _has_begun(folder):
            typer.echo(f"stopped; {_how_to_resume(folder)}", err=True)
        raise typer.Exit(INTERRUPTED) from None
    console.print()
    console.print(render_summary(report))
    typer.echo(f"adapters and receipts: {folder / 'tasks'}/")
    typer.echo(f"report with charts:    {folder / 'report.html'}")


def _has_begun(folder: Path) -> bool:
    from auctune.run.folder import RunFolder

    return RunFolder(folder).exists()


def _how_to_resume(folder: Path) -> str:
    return f"go on with: auctune run --resume {shlex.quote(str(folder))}"


def _check(market: Path | None, out: Path | None, resume: Path | None, fresh: bool) -> None:
    if resume is not None:
        if market is not None or out is not None or fresh:
            raise InputError("--resume", "is given with other arguments", "--resume DIR alone")
        return
    if market is None:
        raise InputError("MARKET.toml", "is missing", "a market file, or --resume DIR")
    if out is None:
        raise InputError("--out", "is missing", "a folder for what comes out")
