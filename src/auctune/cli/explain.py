"""`auctune explain`: why a bid got its answer."""

from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from auctune.client import Job, ServiceError

_NONE = "none"


def explain(
    job: JobId,
    as_json: AsJson = False,
    url: Url = None,
    api_key: ApiKey = None,
    data: Data = DATA,
) -> None:
    """Show why a bid got its answer, and what else there was.

    An auction is asked once more as it was just before the decision; that may take seconds. Of a
    job that is metered what was expected is on record with its decision.
    """
    from auctune.client import ServiceError

    with Finder(url, api_key, data)() as client:
        try:
            found = client.explain(job)
        except ServiceError as error:
            if error.code != "not_decided":
                raise
            _show_estimated(client.job(job), error, as_json=as_json)
            return
    if as_json:
        print_json(found)
        return
    typer.echo(decision_words(found))
    if found["chosen"] is not None:
        _show_parts(found["chosen"])
    if any((found["chosen"], found["earlier"], found["later"], found["earliest"])):
        _show_plans(found)


def _show_estimated(job: "Job", error: "ServiceError", *, as_json: bool) -> None:
    """Why a job was taken that is metered; raises the error for one that was not decided on."""
    from auctune.cli.job_lines import clock, decision_line
    from auctune.cli.menu import alternatives_table, estimate_rows
    from auctune.cli.wide import show, table_of

    if job.metered is None or job.metered["estimate"] is None:
        raise error
    if as_json:
        print_json({name: job.market[name] for name in ("decision", "metered", "alternatives")})
        return
    typer.echo(f"{job.id} in {job.market['zone']}, {clock(job.record['created_at'])}:")
    typer.echo(decision_line(job).plain)
    table = table_of("", "expected", "in 9 of 10 cases")
    for row in estimate_rows(job.metered["estimate"]):
        table.add_row(*row)
    show(table)
    if job.market["alternatives"]:
        show(alternatives_table(job.market["alternatives"], job.market["zone"], "chosen"))


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
        ("traffic", "traffic"),
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
