"""`auctune ledger`: balances of a user, and of all for operators; costs as a FOCUS file."""

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from auctune.cli._support.job_text import format_time
from auctune.cli._support.options import Limit, ShowAll, option_groups, take_newest
from auctune.cli._support.service import ServiceJsonOptions, ServiceOptions
from auctune.cli._support.tables import make_table, print_table
from auctune.domain.errors import InputError

_MEANINGS = {
    "held": "payments and holds of unfinished jobs",
    "revenue": "payments earned",
    "cost:vendors": "cost of vendors' work",
    "cost:energy": "cost of energy",
    "energy": "owed for energy",
    "cost:instances": "cost of rented instances",
}


ledger = typer.Typer(invoke_without_command=True, rich_markup_mode=None)


@ledger.callback()
@option_groups
def show_ledger(
    context: typer.Context,
    *,
    limit: Limit = 20,
    all_: ShowAll = False,
    service: ServiceJsonOptions,
) -> None:
    """Show your balance and payments.

    With an operator's key, also shows all accounts.
    """
    if context.invoked_subcommand is not None:
        _refuse_options(context)
        return
    with service.connect() as client:
        statement = client.statement()
        entries = take_newest(client.entries(), limit, all_=all_)
        balances = client.balances()
    record = {"statement": statement, "entries": entries, "balances": balances}
    service.output(record, _print_ledger)


def _print_ledger(record: Mapping[str, Any]) -> None:
    statement, entries, balances = record["statement"], record["entries"], record["balances"]
    remaining = statement["budget_remaining"]
    budget = "" if remaining is None else f"; remaining budget: {remaining}"
    typer.echo(f"{statement['user']} owes {statement['balance']}{budget}")
    _print_storage(statement["storage"])
    if entries:
        table = make_table("at", "amount", "for", right=("amount",))
        for entry in entries:
            what = entry["job"] or entry["memo"] or "-"
            table.add_row(format_time(entry["created_at"]), entry["amount"], what)
        print_table(table)
    if balances is not None:
        _print_balances(balances)


def _print_storage(storage: Mapping[str, Any]) -> None:
    price = storage["price_per_gb_month"]
    cost = f"; {price} per GB (10^9 bytes) and 30 days" if float(price) else ""
    files = "1 file" if storage["files"] == 1 else f"{storage['files']:,} files"
    typer.echo(f"stored: {files}, {storage['bytes']:,} bytes{cost}")


def _print_balances(balances: Mapping[str, str]) -> None:
    typer.echo("all accounts: debts to the market and its costs are positive; the sum is zero")
    table = make_table("account", "balance", "meaning", right=("balance",))
    for name, balance in balances.items():
        kind, _, owner = name.partition(":")
        by_kind = {"user": f"owed by {owner}", "hold": f"held for jobs of {owner}"}
        table.add_row(name, balance, _MEANINGS.get(name) or by_kind.get(kind, f"owed to {owner}"))
    print_table(table)


@ledger.command("export")
@option_groups
def export_ledger(
    *,
    focus: Annotated[
        bool, typer.Option("--focus", help="As a cost-and-usage file of FOCUS 1.0, in CSV.")
    ],
    month: Annotated[
        str | None,
        typer.Option(
            metavar="MONTH", help="Month in UTC, such as 2026-11. Default: the current one so far."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File to write. Default: standard output."),
    ] = None,
    service: ServiceOptions,
) -> None:
    """Export the costs of a month: yours, or all users' for operators."""
    assert focus
    with service.connect() as client:
        if out is not None:
            client.export_focus(month, out)
            return
        # Standard output gets a whole file too, or nothing.
        with TemporaryDirectory() as folder:
            file = Path(folder) / "focus.csv"
            client.export_focus(month, file)
            with file.open("rb") as content:
                shutil.copyfileobj(content, sys.stdout.buffer)


def _refuse_options(context: typer.Context) -> None:
    """Refuse options before the command, which would be ignored."""
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if source is not None and source.name == "COMMANDLINE":
            option, command = parameter.opts[0], f"{context.command_path}"
            expected = f"{command} {context.invoked_subcommand} {option} ..."
            raise InputError(option, f"is before {context.invoked_subcommand}", expected)
