"""`auctune quote`: what a job would cost, by the time at which it is done."""

from typing import Annotated

import typer

from auctune.cli.menu import show_alternatives, show_menu
from auctune.cli.service_options import DATA, ApiKey, AsJson, Data, Finder, Url, print_json
from auctune.cli.work_options import (
    Model,
    Repair,
    Settings,
    Validation,
    Wanted,
    Zone,
    default_name,
)


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

    wanted = Wanted(
        training_file, validation, tuple(settings or ()), repair, default_name(training_file)
    )
    connect = Finder(url, api_key, data)
    with connect() as client:
        base = model or client.zone(zone)["model"]
        found = client.quote(wanted.upload(client), Terms(base, zone, deadline=deadline))
    if as_json:
        print_json(found)
    else:
        show_alternatives(found)
        show_menu(found, connect.options)
