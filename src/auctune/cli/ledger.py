"""`auctune ledger`: a user's balance, and for operators all accounts."""

from collections.abc import Mapping
from typing import Any

import typer

from auctune.cli._support.job_text import format_time
from auctune.cli._support.options import Limit, ShowAll, option_groups, take_newest
from auctune.cli._support.service import ServiceJsonOptions
from auctune.cli._support.tables import make_table, print_table

_MEANINGS = {
    "held": "payments and holds for jobs under way",
    "revenue": "payments earned",
    "cost:vendors": "what vendors' work cost",
    "cost:energy": "what energy cost",
    "energy": "what is owed for energy",
    "cost:instances": "what rented instances cost",
}


@option_groups
def ledger(*, limit: Limit = 20, all_: ShowAll = False, service: ServiceJsonOptions) -> None:
    """Show your balance and payments.

    Operators see all accounts too.
    """
    with service.connect() as client:
        statement = client.statement()
        entries = take_newest(client.entries(), limit, all_=all_)
        balances = client.balances()
    record = {"statement": statement, "entries": entries, "balances": balances}
    service.output(record, _print_ledger)


def _print_ledger(record: Mapping[str, Any]) -> None:
    statement, entries, balances = record["statement"], record["entries"], record["balances"]
    remaining = statement["budget_left"]
    budget = "" if remaining is None else f"; {remaining} of the budget is left"
    typer.echo(f"{statement['user']} owes {statement['balance']}{budget}")
    if entries:
        table = make_table("at", "amount", "job", right=("amount",))
        for entry in entries:
            table.add_row(format_time(entry["created_at"]), entry["amount"], entry["job"] or "-")
        print_table(table)
    if balances is not None:
        _print_balances(balances)


def _print_balances(balances: Mapping[str, str]) -> None:
    typer.echo(
        "all accounts; what is owed to the market, or costs it, is positive; the sum is zero"
    )
    table = make_table("account", "balance", "holds", right=("balance",))
    for name, balance in balances.items():
        kind, _, owner = name.partition(":")
        of_kind = {"user": f"what {owner} owes", "hold": f"set aside of {owner}'s"}
        meaning = _MEANINGS.get(name) or of_kind.get(kind, f"owed to {owner}")
        table.add_row(name, balance, meaning)
    print_table(table)
