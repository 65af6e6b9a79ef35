"""`auctune ledger`: what one owes, and for operators all accounts."""

from typing import TYPE_CHECKING, Any

import typer

from auctune.cli.listing import All, Limit, newest
from auctune.cli.service_options import DATA, ApiKey, AsJson, Data, Finder, Url, print_json

if TYPE_CHECKING:
    from collections.abc import Mapping

_HOLDS = {
    "held": "payments and holds for jobs under way",
    "revenue": "payments that were earned",
    "cost:vendors": "what vendors' work cost",
    "cost:energy": "what energy cost",
    "energy": "what is owed for energy",
    "cost:instances": "what rented instances cost",
}


def ledger(
    limit: Limit = 20,
    everything: All = False,
    as_json: AsJson = False,
    url: Url = None,
    api_key: ApiKey = None,
    data: Data = DATA,
) -> None:
    """Show what one owes and why; to operators all accounts too."""
    with Finder(url, api_key, data)() as client:
        statement = client.statement()
        entries = newest(client.entries(), limit, everything=everything)
        balances = client.balances()
    if as_json:
        print_json({"statement": statement, "entries": entries, "balances": balances})
        return
    _show_own(statement, entries)
    if balances is not None:
        _show_all(balances)


def _show_own(statement: dict[str, Any], entries: list[dict[str, Any]]) -> None:
    from auctune.cli.job_lines import clock
    from auctune.cli.wide import show, table_of

    left = statement["budget_left"]
    typer.echo(f"{statement['user']} owes {statement['balance']}", nl=left is None)
    if left is not None:
        typer.echo(f"; {left} of the budget is left")
    if not entries:
        return
    table = table_of("at", "amount", "job", right=("amount",))
    for entry in entries:
        table.add_row(clock(entry["created_at"]), entry["amount"], entry["job"] or "-")
    show(table)


def _show_all(balances: "Mapping[str, str]") -> None:
    from auctune.cli.wide import show, table_of

    typer.echo(
        "all accounts: what is owed to the market, or costs it, is positive; they sum to zero"
    )
    table = table_of("account", "balance", "holds", right=("balance",))
    for name, balance in balances.items():
        kind, _, who = name.partition(":")
        of_kind = {"user": f"what {who} owes", "hold": f"set aside of {who}'s"}
        holds = _HOLDS.get(name) or of_kind.get(kind, f"owed to {who}")
        table.add_row(name, balance, holds)
    show(table)
