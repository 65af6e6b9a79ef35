"""`auctune edge make`: a made-up edge market with its jobs."""

from pathlib import Path
from typing import Annotated

import typer

from auctune.cli._support.options import parse_key_values
from auctune.domain.errors import InputError


def make(
    out: Annotated[Path, typer.Option(help="Where the instance goes (JSON).")],
    setting: Annotated[
        str, typer.Option(help="The paper's setting: simulation or testbed.")
    ] = "simulation",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="What is otherwise; repeatable."),
    ] = None,
) -> None:
    """Make up sites and jobs after the paper's settings, from a seed."""
    from auctune.sim.edge.instance_file import write_edge_instance
    from auctune.sim.edge.settings import make_instance, setting_of

    given = parse_key_values(settings or [])
    try:
        wanted = setting_of(setting, given)
    except InputError as error:
        place = "--setting" if error.place == "setting" else f"--set {error.place}"
        raise InputError(place, error.found, error.expected) from None
    instance = make_instance(wanted)
    write_edge_instance(instance, out)
    market = instance.market
    typer.echo(f"{out}: {len(market.sites)} sites, {market.slots} slots, {len(instance.jobs)} jobs")
