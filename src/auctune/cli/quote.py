"""`auctune quote`: what a job would cost, by the time at which it is done."""

from typing import Annotated

import typer

from auctune.cli.menu import show_quote
from auctune.cli.service_options import DATA, ApiKey, AsJson, Data, Finder, Url, print_json
from auctune.cli.terms_options import MaxCost, Risk, TargetLoss, Value, Wishes, base_of
from auctune.cli.work_options import AnyZone, Model, Repair, Settings, Sites, Validation, wanted


def quote(
    training_file: Annotated[
        str | None,
        typer.Argument(help="The data set: a file, or the id of an upload.", show_default=False),
    ] = None,
    deadline: Annotated[
        str | None, typer.Option(help="A time, or a span such as +2h; none: any in the window.")
    ] = None,
    value: Value = None,
    max_cost: MaxCost = None,
    target_loss: TargetLoss = None,
    risk: Risk = None,
    site: Sites = None,
    validation: Validation = None,
    model: Model = None,
    zone: AnyZone = None,
    settings: Settings = None,
    repair: Repair = False,
    as_json: AsJson = False,
    url: Url = None,
    api_key: ApiKey = None,
    data: Data = DATA,
) -> None:
    """Show what a job would cost, by the time at which it is done.

    All zones that could have it are asked, and nothing is held, or bought. What is metered has an
    estimate in place of a price.
    """
    work = wanted(training_file, validation, settings, site, repair=repair)
    wishes = Wishes(None, deadline, value, max_cost, target_loss, risk)
    connect = Finder(url, api_key, data)
    with connect() as client:
        base = base_of(client, model, zone, has_sites=bool(site))
        terms = wishes.terms(base, zone)
        found = client.quote(work.upload(client), terms)
    if as_json:
        print_json(found)
    else:
        show_quote(found, connect.options)
