"""`auctune explain`: why a bid was admitted or rejected, and the alternatives."""

from typing import Any

import typer

from auctune.cli._support.job_text import decision_text, format_time
from auctune.cli._support.options import option_groups
from auctune.cli._support.service import JobId, ServiceJsonOptions
from auctune.cli._support.tables import make_table, print_table
from auctune.cli.quote import alternatives_table, estimate_table
from auctune.client import Job, ServiceError

_PRICE_PARTS = (
    ("operating cost", "operating_cost"),
    ("compute", "compute"),
    ("memory", "memory"),
    ("traffic", "traffic"),
    ("sum", "cost"),
)


@option_groups
def explain(job: JobId, service: ServiceJsonOptions) -> None:
    """Explain the decision on a bid, and its alternatives.

    An auction is evaluated again in its state just before the decision, which may take seconds. For
    a job in a zone that meters usage, the recorded estimate is shown.
    """
    with service.connect() as client:
        try:
            found = client.explain(job)
        except ServiceError as error:
            if error.code not in ("not_explained", "zone_closed"):
                raise
            _explain_estimate(client.job(job), error, service)
            return
    service.output(found, _print_explanation)


def _explain_estimate(job: Job, error: ServiceError, service: ServiceJsonOptions) -> None:
    """Print the estimate on which a metered job was admitted, or raise `error` without one."""
    if job.metered is None or job.metered["estimate"] is None:
        raise error
    record = {name: job.market[name] for name in ("decision", "metered", "alternatives")}
    service.output(record, lambda _: _print_estimate(job, job.metered or {}))


def _print_estimate(job: Job, metered: dict[str, Any]) -> None:
    zone, alternatives = job.market["zone"], job.market["alternatives"]
    typer.echo(f"{job.id} in {zone}, {format_time(job.record['created_at'])}:")
    typer.echo(decision_text(job).plain)
    print_table(estimate_table(metered["estimate"]))
    if alternatives:
        print_table(alternatives_table(alternatives, zone, "chosen"))


def _print_explanation(found: dict[str, Any]) -> None:
    typer.echo(explanation_text(found))
    if found["chosen"] is not None:
        _print_price(found["chosen"])
    if any((found["chosen"], found["earlier"], found["later"], found["earliest"])):
        _print_plans(found)


def explanation_text(found: dict[str, Any]) -> str:
    """Describe a decision, its reason, and the bid or deadline that would have been enough."""
    when = f"{found['job']} in {found['zone']}, {format_time(found['decided_at'])}"
    min_bid, earliest = found["min_bid"], found["earliest"]
    if found["decision"] == "admitted":
        enough = f"; {min_bid} would have been enough" if min_bid else ""
        return f"{when}: admitted, pays {found['payment']} (bid {found['bid']}){enough}"
    text = f"{when}: rejected (bid {found['bid']}), {found['why']}"
    if found["reason"] == "unprofitable" and min_bid:
        return f"{text}; {min_bid} would have been enough"
    if found["chosen"] is None and earliest is not None:
        return f"{text}; it could have been done by {format_time(earliest['finish'])}"
    return text


def _print_price(plan: dict[str, Any]) -> None:
    table = make_table("part of the price", "amount", right=("amount",))
    if plan["vendor"]:
        table.add_row(f"data repaired by {plan['vendor']}", _unrounded(plan["vendor_price"]))
    for header, part in _PRICE_PARTS:
        table.add_row(header, _unrounded(plan[part]))
    table.add_row("price, rounded", plan["price"] or "the bid")
    print_table(table)


def _print_plans(found: dict[str, Any]) -> None:
    table = make_table("plan", "starts", "done by", "price", "vendor", right=("price",))
    for header, plan in (
        ("chosen", found["chosen"]),
        ("done earlier", found["earlier"]),
        ("later and cheaper", found["later"]),
        ("earliest", found["earliest"]),
        *((f"on {name} only", one) for name, one in found["by_node_type"].items()),
        *((f"repaired by {name}", one) for name, one in found["by_vendor"].items()),
    ):
        if plan is None:
            table.add_row(header, "none", "", "", "")
            continue
        times = format_time(plan["start"]), format_time(plan["finish"])
        price = plan["price"] or _unrounded(plan["cost"])
        table.add_row(header, *times, price, plan["vendor"] or "-")
    print_table(table, optional=("vendor", "starts"))


def _unrounded(amount: float) -> str:
    return f"{amount:.6f}"
