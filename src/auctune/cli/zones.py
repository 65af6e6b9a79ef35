"""`auctune zones`, `nodes` and `prices`: a service's compute; mostly for operators."""

from typing import Annotated, Any

import typer

from auctune.cli._support.job_text import format_duration, format_time
from auctune.cli._support.options import option_groups
from auctune.cli._support.service import ServiceJsonOptions, Zone
from auctune.cli._support.tables import make_table, print_table
from auctune.client import Client
from auctune.domain import InputError

zones = typer.Typer(help="Zones: list; pause, resume for operators.", rich_markup_mode=None)
nodes = typer.Typer(help="Nodes: list, drain, return; for operators.", rich_markup_mode=None)

ZoneName = Annotated[str, typer.Argument(metavar="ZONE", help="The zone.", show_default=False)]
NodeName = Annotated[str, typer.Argument(metavar="NODE", help="The node.", show_default=False)]


@zones.command("list")
@option_groups
def list_zones(service: ServiceJsonOptions) -> None:
    """List zones: their models and slots, and whether they accept bids."""
    with service.connect() as client:
        zones = client.zones()
    service.output(zones, _print_zones)


@zones.command("pause")
@option_groups
def pause_zone(zone: ZoneName, service: ServiceJsonOptions) -> None:
    """Stop accepting bids in a zone; admitted jobs continue."""
    _act(zone, "pause", service)


@zones.command("resume")
@option_groups
def resume_zone(zone: ZoneName, service: ServiceJsonOptions) -> None:
    """Accept bids in a zone again."""
    _act(zone, "resume", service)


@nodes.command("list")
@option_groups
def list_nodes(*, zone: Zone = None, service: ServiceJsonOptions) -> None:
    """List a zone's nodes, and whether they are up, lost or drained."""
    with service.connect() as client:
        _output_nodes(client, _zone_name(client, zone), service)


@nodes.command("drain")
@option_groups
def drain(node: NodeName, *, zone: Zone = None, service: ServiceJsonOptions) -> None:
    """Stop using a node at the end of its slot.

    Its planned work is replanned within the deadlines, or refunded.
    """
    _node_action(node, "drain", zone, service)


@nodes.command("return")
@option_groups
def return_node(node: NodeName, *, zone: Zone = None, service: ServiceJsonOptions) -> None:
    """Use a drained node again."""
    _node_action(node, "return", zone, service)


@option_groups
def prices(
    *,
    zone: Zone = None,
    slots: Annotated[int, typer.Option(min=1, help="Show this many slots of each table.")] = 12,
    service: ServiceJsonOptions,
) -> None:
    """Show a zone's prices, use and jobs; for operators."""
    with service.connect() as client:
        state = client.zone_state(client.zone(zone)["id"])
    service.output(state, lambda one: _print_state(one, slots))


def _act(zone: str, action: str, service: ServiceJsonOptions) -> None:
    with service.connect() as client:
        changed = client.zone_action(zone, action)
    service.output(changed, lambda one: _print_zones([one]))


def _node_action(node: str, action: str, zone: str | None, service: ServiceJsonOptions) -> None:
    with service.connect() as client:
        name = _zone_name(client, zone)
        client.node_action(name, node, action)
        _output_nodes(client, name, service)


def _zone_name(client: Client, zone: str | None) -> str:
    return zone or str(client.zone(None)["id"])


def _output_nodes(client: Client, zone: str, service: ServiceJsonOptions) -> None:
    def show(records: list[dict[str, Any]]) -> None:
        table = make_table("node", "type", "zone", "state")
        for node in records:
            table.add_row(node["id"], node["type"], zone, node["state"])
        print_table(table)

    state = client.zone_state(zone)
    if state["nodes"] is None:
        found = f"zone {zone} ({state['kind']}) has no nodes of its own"
        raise InputError("--zone", found, "a zone with nodes")
    service.output(state["nodes"], show)


def _print_zones(records: list[dict[str, Any]]) -> None:
    table = make_table(
        "zone", "kind", "model", "nodes", "slot", "slot length", "latest deadline", "accepts bids",
        right=("nodes", "slot"),
    )  # fmt: skip
    for zone in records:
        table.add_row(
            zone["id"],
            zone["kind"],
            zone["model"],
            str(zone["num_nodes"]),
            str(zone["slot"]),
            format_duration(zone["slot_seconds"]),
            format_time(zone["latest_deadline"]),
            "yes" if zone["accepting_bids"] else "no, paused",
        )
    print_table(table)


def _print_state(state: dict[str, Any], slots: int) -> None:
    """Print the sections of a zone of any kind; of tables by slot the first `slots`."""
    typer.echo(f"zone: {state['zone']}, kind: {state['kind']}")
    for section in state["sections"]:
        columns, rows = section["columns"], section["rows"]
        if columns[0]["name"] == "slot":
            shown = list(dict.fromkeys(row[0] for row in rows))[:slots]
            rows = [row for row in rows if row[0] in shown]
        typer.echo(f"\n{section['title']}. {section['caption']}")
        numbers = (one["name"] for one in columns if one["format"] in ("number", "share"))
        table = make_table(*(one["name"] for one in columns), right=tuple(numbers))
        for row in rows:
            table.add_row(*map(_cell_text, row, columns))
        print_table(table)


def _cell_text(value: Any, column: dict[str, Any]) -> str:
    match column["format"]:
        case "time":
            return format_time(value)
        case _ if value is None:
            return "-"
        case "number":
            return f"{value:.{column['digits']}f}"
        case "share":
            return f"{value:.0%}"
    return str(value)
