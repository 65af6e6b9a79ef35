"""A quote as tables, and how to accept what is in it."""

from typing import Any

import typer

_CHOSEN = "default, shown below"


# Fields of a request, as the command line calls them.
_OPTIONS = {
    "market.target_loss": "--target-loss",
    "market.deadline": "--deadline",
    "market.max_cost": "--max-cost",
    "market.sites": "--site",
    "market.repair": "--repair",
    "validation_file": "--validation",
}


def in_options(text: str) -> str:
    """What the service says of a request, with its fields as the command line calls them."""
    for field, option in _OPTIONS.items():
        text = text.replace(field, option)
    return text


def show_quote(quoted: dict[str, Any], options: str) -> None:
    """Print what each zone said, where several were asked, and the quote of the default one.

    Args:
        quoted: as the service answered.
        options: that find the service, as one would type them.
    """
    show_alternatives(quoted)
    for note in quoted["notes"]:
        typer.echo(f"note: {note}")
    if quoted["estimate"] is None:
        show_menu(quoted, options)
    else:
        show_estimate(quoted, options)


def show_menu(quoted: dict[str, Any], options: str) -> None:
    """Print the lines of a quote; arguments as of `show_quote`."""
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


def show_estimate(quoted: dict[str, Any], options: str) -> None:
    """Print what a metered zone expects of a job; arguments as of `show_quote`."""
    from auctune.cli.wide import show, table_of

    zone, found = quoted["zone"], quoted["estimate"]
    typer.echo(f"zone {zone} ({quoted['kind']}) meters what is used, and promises no price:")
    table = table_of("", "expected", "in 9 of 10 cases")
    for row in estimate_rows(found):
        table.add_row(*row)
    show(table)
    if found["cap"] is None:
        cap = f"you pay at most {found['p90_cost']}; change that with --max-cost"
    else:
        cap = f"you pay at most {found['cap']}"
    typer.echo(f"{cap}; accept it with:")
    typer.echo(f"  auctune submit --quote {quoted['id']}{options}")


def estimate_rows(found: dict[str, Any]) -> list[tuple[str, str, str]]:
    """An estimate in rows: what it is of, the expected value, and what 9 of 10 cases keep."""
    from auctune.cli.job_lines import clock

    times = clock(found["finish"]), clock(found["finish_p90"])
    rows = [
        ("cost", found["expected_cost"], found["p90_cost"]),
        ("done by", *times),
        ("risk of being late, or not done", f"{found['risk']:.0%}", ""),
    ]
    if found["success_probability"] is not None:
        rows.append(("the loss is reached", f"{found['success_probability']:.0%}", ""))
    if found["price_per_pool_second"] is not None:
        rows.append(("a second of the pool", found["price_per_pool_second"], ""))
    return rows


def show_alternatives(quoted: dict[str, Any]) -> None:
    """Print what each zone said, where there was a choice, above the quote of the default one."""
    from auctune.cli.wide import show

    if not quoted["alternatives"]:
        return
    show(alternatives_table(quoted["alternatives"], quoted["zone"], _CHOSEN))
    if sum(one["cost"] is not None for one in quoted["alternatives"]) > 1:
        typer.echo("choose another with --zone NAME")


def alternatives_table(alternatives: list[dict[str, Any]], chosen: str, words: str) -> Any:
    """What each zone said, as a table; `words` stand with the one that was chosen."""
    from auctune.cli.job_lines import clock
    from auctune.cli.wide import table_of

    table = table_of("zone", "kind", "cost", "done by", "risk", "", right=("cost", "risk"))
    for one in alternatives:
        told = words if one["zone"] == chosen else ""
        if one["cost"] is None:
            table.add_row(
                one["zone"], one["kind"], "-", "-", "-", f"no: {in_options(one['why_not'])}"
            )
        else:
            cost, risk = one["cost"], f"{one['risk']:.0%}"
            table.add_row(one["zone"], one["kind"], cost, clock(one["finish"]), risk, told)
    return table
