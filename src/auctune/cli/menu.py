"""A quote as a table, and how to accept a line of it."""

from typing import Any

import typer


def show_menu(quoted: dict[str, Any], options: str) -> None:
    """Print a quote.

    Args:
        quoted: as the service answered.
        options: that find the service, as one would type them.
    """
    from auctune.cli.job_lines import clock
    from auctune.cli.wide import show, table_of

    lines = quoted["lines"]
    if not lines:
        typer.echo("no node could finish it in time, at any price")
        return
    table = table_of(
        "line", "done by", "price", "begins", "slots", "vendor", right=("line", "price", "slots")
    )
    for line in lines:
        vendor = line["vendor"] or "-"
        times = clock(line["finish"]), line["price"], clock(line["start"])
        table.add_row(str(line["line"]), *times, str(line["slots"]), vendor)
    show(table)
    end = quoted["expires_at"]
    # Lines that begin sooner are over before the quote is.
    by = f", and by {clock(end)} at the latest" if lines[-1]["start"] > end else ""
    typer.echo(f"accept a line before it begins{by}; the last one with:")
    name, last = quoted["id"], lines[-1]["line"]
    typer.echo(f"  auctune submit --quote {name} --line {last}{options}")


def show_alternatives(quoted: dict[str, Any]) -> None:
    """Print what each zone said, where there was a choice, above the quote of the default one."""
    from auctune.cli.job_lines import clock
    from auctune.cli.wide import show, table_of

    if not quoted["alternatives"]:
        return
    table = table_of("zone", "kind", "cost", "done by", "risk", "", right=("cost", "risk"))
    for one in quoted["alternatives"]:
        chosen = "shown below" if one["zone"] == quoted["zone"] else ""
        if one["cost"] is None:
            table.add_row(one["zone"], one["kind"], "-", "-", "-", one["why_not"])
        else:
            cost, risk = one["cost"], f"{one['risk']:.0%}"
            table.add_row(one["zone"], one["kind"], cost, clock(one["finish"]), risk, chosen)
    show(table)
