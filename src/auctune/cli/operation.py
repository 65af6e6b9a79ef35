"""`auctune zones` and `auctune nodes`: what an operator does with the supply."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from auctune.cli.service_options import DATA, ApiKey, AsJson, Data, Finder, Url, print_json
from auctune.cli.work_options import Zone

if TYPE_CHECKING:
    from auctune.client import Client

zones = typer.Typer(help="Zones: list; pause, resume for operators.", rich_markup_mode=None)
nodes = typer.Typer(help="Nodes: list, drain, return; for operators.", rich_markup_mode=None)

ZoneName = Annotated[str, typer.Argument(metavar="ZONE", help="The zone.", show_default=False)]
NodeName = Annotated[str, typer.Argument(metavar="NODE", help="The node.", show_default=False)]


@zones.command("list")
def list_zones(
    as_json: AsJson = False, url: Url = None, api_key: ApiKey = None, data: Data = DATA
) -> None:
    """List zones: their models and slots, and whether they take bids."""
    with Finder(url, api_key, data)() as client:
        found = client.zones()
    if as_json:
        print_json(found)
    else:
        _show_zones(found)


@zones.command("pause")
def pause_zone(
    zone: ZoneName,
    as_json: AsJson = False,
    url: Url = None,
    api_key: ApiKey = None,
    data: Data = DATA,
) -> None:
    """Have a zone take no more bids. What was admitted goes on."""
    _act(zone, "pause", Finder(url, api_key, data), as_json=as_json)


@zones.command("resume")
def resume_zone(
    zone: ZoneName,
    as_json: AsJson = False,
    url: Url = None,
    api_key: ApiKey = None,
    data: Data = DATA,
) -> None:
    """Take bids in a zone again."""
    _act(zone, "resume", Finder(url, api_key, data), as_json=as_json)


@nodes.command("list")
def list_nodes(
    zone: Zone = None,
    as_json: AsJson = False,
    url: Url = None,
    api_key: ApiKey = None,
    data: Data = DATA,
) -> None:
    """List a zone's nodes, and whether they are up, lost or drained."""
    with Finder(url, api_key, data)() as client:
        _tell_nodes(client, _name(client, zone), as_json=as_json)


@nodes.command("drain")
def drain(
    node: NodeName,
    zone: Zone = None,
    as_json: AsJson = False,
    url: Url = None,
    api_key: ApiKey = None,
    data: Data = DATA,
) -> None:
    """Take a node off the market at its slot's end.

    What it was to run is planned anew before its deadlines, or refunded.
    """
    _move(node, zone, "drain", Finder(url, api_key, data), as_json=as_json)


@nodes.command("return")
def give_back(
    node: NodeName,
    zone: Zone = None,
    as_json: AsJson = False,
    url: Url = None,
    api_key: ApiKey = None,
    data: Data = DATA,
) -> None:
    """Put a node on the market again."""
    _move(node, zone, "return", Finder(url, api_key, data), as_json=as_json)


def _act(zone: str, action: str, connect: Finder, *, as_json: bool) -> None:
    with connect() as client:
        found = client.act_on_zone(zone, action)
    if as_json:
        print_json(found)
    else:
        _show_zones([found])


def _move(node: str, zone: str | None, action: str, connect: Finder, *, as_json: bool) -> None:
    with connect() as client:
        name = _name(client, zone)
        client.act_on_node(name, node, action)
        _tell_nodes(client, name, as_json=as_json)


def _name(client: "Client", zone: str | None) -> str:
    return zone or str(client.zone(None)["id"])


def _tell_nodes(client: "Client", zone: str, *, as_json: bool) -> None:
    from auctune.cli.wide import show, table_of

    found = client.prices(zone)["nodes"]
    if as_json:
        print_json(found)
        return
    table = table_of("node", "type", "zone", "state")
    for node in found:
        table.add_row(node["id"], node["type"], zone, node["state"])
    show(table)


def _show_zones(found: list[dict[str, Any]]) -> None:
    from auctune.cli.job_lines import clock, span
    from auctune.cli.wide import show, table_of

    table = table_of(
        "zone", "kind", "model", "nodes", "slot", "slots of", "latest deadline", "takes bids",
        right=("nodes", "slot"),
    )  # fmt: skip
    for zone in found:
        table.add_row(
            zone["id"],
            zone["kind"],
            zone["model"],
            str(zone["num_nodes"]),
            str(zone["slot"]),
            span(zone["slot_seconds"]),
            clock(zone["latest_deadline"]),
            "yes" if zone["takes_bids"] else "no, paused",
        )
    show(table)
