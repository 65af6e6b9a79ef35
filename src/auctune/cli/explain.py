"""`auctune explain`: why a bid got its answer."""

from typing import Any

import typer

from auctune.cli.service_options import (
    DATA,
    ApiKey,
    AsJson,
    Data,
    Finder,
    JobId,
    Url,
    print_json,
)

_NONE = "none"


def explain(
    job: JobId,
    as_json: AsJson = False,
    url: Url = None,
    api_key: ApiKey = None,
    data: Data = DATA,
) -> None:
    """Show why a bid got its answer, and what else there was.

    The market is asked once more as it was just before the decision; that may take seconds.
    """
    with Finder(url, api_key, data)() as client:
        found = client.explain(job)
    if as_json:
        print_json(found)
        return
    typer.echo(decision_words(found))
    if found["chosen"] is not None:
        _show_parts(found["chosen"])
    _show_plans(found)


def decision_words(found: dict[str, Any]) -> str:
    """What was decided, why, and what would have been enough.

    Args:
        found: an explanation, as the service answered.
    """
    from auctune.cli.job_lines import clock

    when = f"{found['job']} in {found['zone']}, {clock(found['decided_at'])}"
    least, earliest = found["least_bid"], found["earliest"]
    if found["decision"] == "admitted":
        enough = f"; {least} would have been enough" if least else ""
        return f"{when}: admitted, pays {found['payment']} (bid {found['bid']}){enough}"
    words = f"{when}: rejected (bid {found['bid']}), {found['why']}"
    if found["reason"] == "unprofitable" and least:
        return f"{words}; {least} would have been enough"
    if found["chosen"] is None and earliest is not None:
        return f"{words}; it could have been done by {clock(earliest['finish'])}"
    return words


def _show_parts(plan: dict[str, Any]) -> None:
    from auctune.cli.wide import show, table_of

    table = table_of("part of the price", "amount", right=("amount",))
    if plan["vendor"]:
        table.add_row(f"data repaired by {plan['vendor']}", _unrounded(plan["vendor_price"]))
    for head, part in (
        ("operating cost", "operating_cost"),
        ("compute", "compute"),
        ("memory", "memory"),
        ("together", "cost"),
    ):
        table.add_row(head, _unrounded(plan[part]))
    table.add_row("price, rounded", plan["price"] or "what was bid")
    show(table)


def _show_plans(found: dict[str, Any]) -> None:
    from auctune.cli.job_lines import clock
    from auctune.cli.wide import show, table_of

    table = table_of("plan", "begins", "done by", "price", "vendor", right=("price",))
    for head, plan in (
        ("the bid's", found["chosen"]),
        ("done earlier", found["earlier"]),
        ("later and cheaper", found["later"]),
        ("at the earliest", found["earliest"]),
        *((f"on {name} alone", one) for name, one in found["by_node_type"].items()),
        *((f"repaired by {name}", one) for name, one in found["by_vendor"].items()),
    ):
        if plan is None:
            table.add_row(head, _NONE, "", "", "")
            continue
        price = plan["price"] or _unrounded(plan["cost"])
        times = clock(plan["start"]), clock(plan["finish"])
        table.add_row(head, *times, price, plan["vendor"] or "-")
    show(table, spare=("vendor", "begins"))


def _unrounded(amount: float) -> str:
    return f"{amount:.6f}"
