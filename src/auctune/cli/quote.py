"""`auctune quote`, and tables of quotes."""

import math
import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, replace
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from auctune.cli._support.job_text import format_time
from auctune.cli._support.options import Omit, changed_options, option_groups, option_of
from auctune.cli._support.service import ServiceJsonOptions
from auctune.cli._support.tables import make_table, print_table
from auctune.client import JobSpec, JobTerms
from auctune.client.spec import parse_training_settings
from auctune.domain.errors import InputError

_DEFAULT = "default, see below"
_MAX_NAME = 64
# A suggested command holds as long, to be read and typed.
_SECONDS_TO_TYPE = 60.0

# Fields of a request's `market` that are not objects, and the options that set them.
_FIELD = re.compile(r"\bmarket\.(\w+)(?!\w|\.\w)")
_OPTIONS = {one.name: option_of(one) for one in (*fields(JobTerms), *fields(JobSpec))} | {
    "quote": "--quote",
    "line": "--line",
}


@option_groups
def quote(
    terms: Annotated[JobTerms, Omit("bid", "what_if")],
    spec: Annotated[JobSpec, Omit("name")],
    service: ServiceJsonOptions,
) -> None:
    """Quote a job: price by finish time, or an estimate.

    Requests a quote of every zone that could run the job; nothing is reserved or bought. Zones
    that meter usage estimate the cost and the finish time.
    """
    checked = check_spec(spec)
    with errors_name_options(), service.connect() as client:
        quoted = client.quote(client.prepare(checked, terms), terms)
    given = changed_options(terms) | changed_options(spec)
    service.output(quoted, lambda one: print_quote(one, service.command_line, given))


def check_spec(spec: JobSpec) -> JobSpec:
    """Return a spec with a default name and parsed settings, before files are uploaded."""
    data = spec.training_file or next(iter(spec.sites.values()), None)
    if data is None:
        raise InputError("TRAINING_FILE", "is missing", "a data set, or --site NAME=FILE")
    default = None if data.startswith("file-") else Path(data).stem[:_MAX_NAME] or None
    settings = parse_training_settings(spec.settings)
    return replace(spec, name=spec.name or default, settings=settings)


def print_quote(
    quoted: dict[str, Any], options: str, given: Mapping[str, Any] | None = None
) -> None:
    """Print the offer of each zone, if there are several, then the default zone's quote.

    Args:
        quoted: the service's answer.
        options: command-line options that select the service.
        given: options of the job as typed, by name, to bid for it.
    """
    print_alternatives(quoted)
    for note in quoted["notes"]:
        typer.echo(f"note: {note}")
    if quoted["estimate"] is None:
        _print_menu(quoted, options, given)
    else:
        _print_estimate(quoted, options)


def print_alternatives(quoted: dict[str, Any]) -> None:
    """Print the offer of each zone, if there are several."""
    if not quoted["alternatives"]:
        return
    print_table(alternatives_table(quoted["alternatives"], quoted["zone"], _DEFAULT))
    if sum(one["cost"] is not None for one in quoted["alternatives"]) > 1:
        typer.echo("choose another with --zone NAME")


def alternatives_table(alternatives: list[dict[str, Any]], chosen: str, mark: str) -> Table:
    """Return a table of the zones' offers, with `mark` beside the chosen zone."""
    table = make_table("zone", "kind", "cost", "done by", "risk", "", right=("cost", "risk"))
    for one in alternatives:
        if one["cost"] is None:
            offer, remark = (
                ("-", "-", "-"),
                f"unavailable: {use_option_names(one['unavailable_reason'])}",
            )
        else:
            offer = one["cost"], format_time(one["finish"]), f"{one['risk']:.0%}"
            remark = mark if one["zone"] == chosen else ""
        table.add_row(one["zone"], one["kind"], *offer, remark)
    return table


def use_option_names(text: str) -> str:
    """Replace names of request fields by the options that set them."""
    text = _FIELD.sub(lambda field: _OPTIONS.get(field[1], field[0]), text)
    # Some messages of the service name field and option.
    text = re.sub(r"(--[\w-]+) \(\1\)", r"\1", text)
    return text.replace("validation_file", "--validation")


@contextmanager
def errors_name_options() -> Iterator[None]:
    """Make errors of the service name options instead of request fields."""
    try:
        yield
    except InputError as error:
        texts = (use_option_names(one) for one in (error.place, error.found, error.expected))
        raise InputError(*texts) from None


def estimate_table(estimate: dict[str, Any]) -> Table:
    """Return a table of an estimate: expected values and 90% quantiles."""
    table = make_table("", "expected", "in 9 of 10 cases")
    finish, finish_p90 = format_time(estimate["finish"]), format_time(estimate["finish_p90"])
    table.add_row("cost", estimate["expected_cost"], estimate["p90_cost"])
    table.add_row("done by", finish, finish_p90)
    table.add_row("risk of missing the deadline", f"{estimate['risk']:.0%}", "")
    if estimate["success_probability"] is not None:
        table.add_row("target loss reached", f"{estimate['success_probability']:.0%}", "")
    if estimate["price_per_pool_second"] is not None:
        table.add_row("price per pool second", estimate["price_per_pool_second"], "")
    return table


def _print_menu(quoted: dict[str, Any], options: str, given: Mapping[str, Any] | None) -> None:
    lines = quoted["lines"]
    if not lines:
        typer.echo("no node could finish the job in time, at any price")
        return
    table = make_table(
        "line", "done by", "price", "starts", "slots", "vendor", right=("line", "price", "slots")
    )
    for line in lines:
        finish, start = format_time(line["finish"]), format_time(line["start"])
        slots, vendor = str(line["slots"]), line["vendor"] or "-"
        table.add_row(str(line["line"]), finish, line["price"], start, slots, vendor)
    print_table(table)
    last = lines[-1]
    # Lines that start earlier expire at their start.
    expires = min(last["start"], quoted["expires_at"])
    if given is not None and expires < quoted["created_at"] + _SECONDS_TO_TYPE:
        until = f"accept a line before it starts, the last one by {format_time(expires)}"
        typer.echo(f"{until}; or bid the most that you would pay:")
        typer.echo(f"  {_bid_command(quoted, given)}{options}")
        return
    until = f"for example the last one by {format_time(expires)}"
    typer.echo(f"accept a line before it starts, {until}:")
    typer.echo(f"  auctune submit --quote {quoted['id']} --line {last['line']}{options}")


def _bid_command(quoted: dict[str, Any], given: Mapping[str, Any]) -> str:
    """Return the command that bids for a quoted job, with room in price and time."""
    bid = 2 * max(Decimal(line["price"]) for line in quoted["lines"]) or Decimal("1.0000")
    minutes = math.ceil(2 * (quoted["lines"][-1]["finish"] - quoted["created_at"]) / 60)
    terms = {"--bid": f"{bid}", "--deadline": f"+{minutes}m"}
    words = ["auctune", "submit"]
    for name, value in (terms | dict(given)).items():
        if not name.startswith("--"):
            words.insert(2, str(value))
        elif isinstance(value, Mapping):
            words += [word for pair in value.items() for word in (name, "=".join(map(str, pair)))]
        else:
            words += [name] if value is True else [name, str(value)]
    return shlex.join(words)


def _print_estimate(quoted: dict[str, Any], options: str) -> None:
    estimate = quoted["estimate"]
    typer.echo(f"zone {quoted['zone']} ({quoted['kind']}) meters usage; this is an estimate:")
    print_table(estimate_table(estimate))
    if estimate["cap"] is None:
        cap = f"you pay at most {estimate['p90_cost']} (set with --max-cost)"
    else:
        cap = f"you pay at most {estimate['cap']}"
    typer.echo(f"{cap}; accept it with:")
    typer.echo(f"  auctune submit --quote {quoted['id']}{options}")
