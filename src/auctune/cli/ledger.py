"""`auctune ledger`: a user's balance, and all balances for operators."""

from collections.abc import Mapping
from typing import Any

import typer

from auctune.cli._support.job_text import format_time
from auctune.cli._support.options import Limit, ShowAll, option_groups, take_newest
from auctune.cli._support.service import ServiceJsonOptions
from auctune.cli._support.tables import make_table, print_table

_MEANINGS = {
    "held": "payments and holds of unfinished jobs",
    "revenue": "payments earned",
    "cost:vendors": "cost of vendors' work",
    "cost:energy": "cost of energy",
    "energy": "owed for energy",
    "cost:instances": "cost of rented instances",
}


@option_groups
def ledger(*, limit: Limit = 20, all_: ShowAll = False, service: ServiceJsonOptions) -> None:
    """Show your balance and payments.

    With an operator's key, also shows all accounts.
    """
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
    if entries:
        table = make_table("at", "amount", "job", right=("amount",))
        for entry in entries:
            table.add_row(format_time(entry["created_at"]), entry["amount"], entry["job"] or "-")
        print_table(table)
    if balances is not None:
        _print_balances(balances)


def _print_balances(balances: Mapping[str, str]) -> None:
    typer.echo("all accounts: debts to the market and its costs are positive; the sum is zero")
    table = make_table("account", "balance", "meaning", right=("balance",))
    for name, balance in balances.items():
        kind, _, owner = name.partition(":")
        by_kind = {"user": f"owed by {owner}", "hold": f"held for jobs of {owner}"}
        table.add_row(name, balance, _MEANINGS.get(name) or by_kind.get(kind, f"owed to {owner}"))
    print_table(table)
