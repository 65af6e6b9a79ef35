"""`auctune quote`: what a job would cost, by the time at which it is done."""

import shlex
from typing import TYPE_CHECKING, Annotated, Any

import typer

from auctune.cli.service_options import DATA, ApiKey, AsJson, Data, Finder, Url, print_json
from auctune.cli.work_options import Model, Repair, Settings, Validation, Wanted, Zone

if TYPE_CHECKING:
    from auctune.client import Work


def quote(
    training_file: Annotated[
        str, typer.Argument(help="The data set: a file, or the id of an upload.")
    ],
    deadline: Annotated[
        str | None, typer.Option(help="A time, or a span such as +2h; none: any in the window.")
    ] = None,
    validation: Validation = None,
    model: Model = None,
    zone: Zone = None,
    settings: Settings = None,
    repair: Repair = False,
    as_json: AsJson = False,
    url: Url = None,
    api_key: ApiKey = None,
    data: Data = DATA,
) -> None:
    """Show what a job would cost, by the time at which it is done. Nothing is held, or bought."""
    from auctune.client import Terms

    wanted = Wanted(training_file, validation, tuple(settings or ()), repair)
    with Finder(url, api_key, data)() as client:
        base = model or client.zone(zone)["model"]
        work = wanted.upload(client)
        found = client.quote(work, Terms(base, zone, deadline=deadline))
    if as_json:
        print_json(found)
        return
    _show(found, wanted, work, model, zone)


def _show(
    quoted: dict[str, Any], wanted: Wanted, work: "Work", model: str | None, zone: str | None
) -> None:
    from auctune.cli.job_lines import clock
    from auctune.cli.wide import show, table_of

    lines = quoted["lines"]
    if not lines:
        typer.echo("no node could finish it by then, at any price")
        return
    table = table_of(
        "line", "done by", "price", "begins", "slots", "vendor", right=("line", "price", "slots")
    )
    for line in lines:
        vendor = line["vendor"] or "-"
        times = clock(line["finish"]), line["price"], clock(line["start"])
        table.add_row(str(line["line"]), *times, str(line["slots"]), vendor)
    show(table)
    options = wanted.options(work)
    for name, value in (("--model", model), ("--zone", zone)):
        options += f" {name} {shlex.quote(value)}" if value else ""
    typer.echo("accept a line with, say:")
    typer.echo(f"  auctune submit {options} --quote {quoted['id']} --line {lines[-1]['line']}")
