"""The `auctune` command.

A command is a function in a module of its own, whose imports are light: what is heavy is imported
inside it, so that `auctune --help` is there at once. Its name on the command line is the key in
`COMMANDS`, its help the docstring.
"""

import sys
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

import auctune
from auctune.cli.database import db
from auctune.cli.doctor import doctor
from auctune.cli.edge import edge
from auctune.cli.errors import exit_code_of
from auctune.cli.explain import explain
from auctune.cli.fetch import fetch
from auctune.cli.files import files
from auctune.cli.init import init
from auctune.cli.job_actions import cancel, pause, resume
from auctune.cli.jobs import jobs
from auctune.cli.ledger import ledger
from auctune.cli.operation import nodes, zones
from auctune.cli.people import keys, teams, users
from auctune.cli.prices import prices
from auctune.cli.profile import profile
from auctune.cli.quote import quote
from auctune.cli.replay import replay
from auctune.cli.run import run
from auctune.cli.serve import serve
from auctune.cli.simulate import simulate
from auctune.cli.spot import spot
from auctune.cli.submit import submit
from auctune.cli.timeshare import timeshare
from auctune.cli.try_adapter import try_adapter
from auctune.cli.watch import watch
from auctune.cli.webhooks import webhooks
from auctune.cli.workload import workload

COMMANDS: Mapping[str, Callable[..., Any]] = {
    "init": init,
    "doctor": doctor,
    "serve": serve,
    "quote": quote,
    "submit": submit,
    "watch": watch,
    "jobs": jobs,
    "explain": explain,
    "fetch": fetch,
    "try": try_adapter,
    "cancel": cancel,
    "pause": pause,
    "resume": resume,
    "prices": prices,
    "ledger": ledger,
    "run": run,
    "simulate": simulate,
    "replay": replay,
    "workload": workload,
    "profile": profile,
}
GROUPS: Mapping[str, typer.Typer] = {
    "files": files,
    "webhooks": webhooks,
    "zones": zones,
    "nodes": nodes,
    "users": users,
    "teams": teams,
    "keys": keys,
    "db": db,
    "spot": spot,
    "timeshare": timeshare,
    "edge": edge,
}

app = typer.Typer(
    name="auctune",
    invoke_without_command=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _name, _command in COMMANDS.items():
    app.command(_name)(_command)
for _name, _group in GROUPS.items():
    app.add_typer(_group, name=_name)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"auctune {auctune.__version__}")
        raise typer.Exit


@app.callback()
def _auctune(
    context: typer.Context,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """A market for fine-tuning: bids in, prices and plans at once, trained LoRA adapters out."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(2)


def main() -> None:
    """Run the command line; exit code 2 for bad input, 1 for what else went wrong."""
    try:
        # However it was started, it is called by the name that works everywhere.
        code = app(prog_name="auctune", standalone_mode=False)
    except Exception as error:
        code = exit_code_of(error)
    sys.exit(code or 0)
