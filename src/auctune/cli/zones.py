"""`auctune zones`, `nodes` and `prices`: a service's compute; mostly for operators."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from auctune.cli._support.job_text import format_duration, format_time
from auctune.cli._support.options import option_groups
from auctune.cli._support.service import ServiceJsonOptions, Zone
from auctune.cli._support.tables import make_table, print_table
from auctune.client import Client
from auctune.domain import InputError
from auctune.domain.job_words import loss_text, state_word

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
    slots: Annotated[int, typer.Option(min=1, help="Show this many slots.")] = 12,
    service: ServiceJsonOptions,
) -> None:
    """Show a zone's prices and utilization by slot; for operators.

    Prices of an auction are per sample. A spot zone shows its market and instances, a pool the
    jobs that share it, an edge zone its sites.
    """
    with service.connect() as client:
        state = client.zone_state(client.zone(zone)["id"])
    service.output(state, lambda one: _PRINTERS.get(one["kind"], _print_other)(one, slots))


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
    if "nodes" not in state:
        place, expected = "--zone", "a zone of kind auction"
        raise InputError(place, f"zone {zone} ({state['kind']}) has no nodes of its own", expected)
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


def _print_nodes(state: dict[str, Any], slots: int) -> None:
    """Print an auction's prices and utilization, from the present slot on."""
    headers = [_with_state(node["id"], node["state"]) for node in state["nodes"]]
    typer.echo(f"zone {state['zone']}: price per sample, and share sold")
    table = make_table("slot", "starts", *headers, right=("slot", *headers))
    for index, row in enumerate(state["compute_price"][:slots]):
        used = state["compute_used"][index]
        cells = (f"{price:.6f} {share:>5.0%}" for price, share in zip(row, used, strict=True))
        table.add_row(*_slot_cells(state, index), *cells)
    print_table(table)


def _print_instances(state: dict[str, Any], slots: int) -> None:
    """Print a spot zone's market and instances in the newest slots, the newest last."""
    headers = ("spot price", "available", "on-demand", "spot")
    typer.echo(
        f"zone {state['zone']}: price of a spot instance per slot (on demand: "
        f"{state['unit_price']:g}), and instances held"
    )
    table = make_table("slot", "starts", *headers, right=("slot", *headers))
    for row in state["slots"][-slots:]:
        price = f"{row['price'] * state['unit_price']:.4f}"
        counts = (str(row[name]) for name in ("available", "on_demand", "spot"))
        table.add_row(str(row["slot"]), format_time(row["begins_at"]), price, *counts)
    print_table(table)


def _print_pool(state: dict[str, Any], slots: int) -> None:
    """Print the jobs that share a pool, and their shares in the newest slots."""
    typer.echo(f"zone {state['zone']}: jobs that share its pool")
    numbers = ("loss", "target", "share", "cost")
    table = make_table("job", "user", "state", *numbers, "deadline", "", right=numbers)
    for job in state["jobs"]:
        loss, target = job["best_loss"], job["target_loss"]
        table.add_row(
            job["job"],
            job["user"],
            state_word(job["state"]),
            "-" if loss is None else loss_text(loss, target),
            f"{target:g}",
            f"{job['share']:.0%}",
            job["cost"],
            format_time(job["deadline"]),
            job["verdict"] or "",
        )
    print_table(table)
    table = make_table("slot", "starts", "shares", right=("slot",))
    for unit in state["units"][-slots:]:
        shares = ", ".join(f"{job} {share:.0%}" for job, share in unit["shares"].items())
        table.add_row(str(unit["unit"]), format_time(unit["begins_at"]), shares)
    print_table(table)


def _print_sites(state: dict[str, Any], slots: int) -> None:
    """Print an edge zone's prices and utilization by site and device type, and its traffic."""
    devices = [
        (site, kind, _with_state(f"{record['id']} {name}", record["state"]))
        for site, record in enumerate(state["sites"])
        for kind, name in enumerate(state["types"])
        if record["capacity"].get(name)
    ]
    headers = [header for _, _, header in devices]
    typer.echo(f"zone {state['zone']}: price per device, and share sold; traffic in MB")
    table = make_table("slot", "starts", *headers, "traffic", right=("slot", *headers, "traffic"))
    for index, row in enumerate(state["price"][:slots]):
        cells = []
        for site, kind, _ in devices:
            capacity = state["sites"][site]["capacity"][state["types"][kind]]
            share = state["used"][index][site][kind] / capacity
            cells.append(f"{row[site][kind]:.6f} {share:>5.0%}")
        traffic = f"{state['traffic_used_mb'][index]:.1f}"
        table.add_row(*_slot_cells(state, index), *cells, traffic)
    print_table(table)


def _print_other(state: dict[str, Any], _slots: int) -> None:
    """Print the state of a zone whose kind an installed package offers: values, then records."""
    tables = {name: value for name, value in state.items() if isinstance(value, list)}
    for name, value in state.items():
        if name not in tables:
            typer.echo(f"{name}: {value}")
    for records in filter(None, tables.values()):
        table = make_table(*records[0])
        for record in records:
            table.add_row(*("" if value is None else str(value) for value in record.values()))
        print_table(table)


def _slot_cells(state: dict[str, Any], index: int) -> tuple[str, str]:
    start = state["first_begins_at"] + index * state["slot_seconds"]
    return str(state["first_slot"] + index), format_time(start)


def _with_state(name: str, status: str) -> str:
    return name if status == "up" else f"{name} ({status})"


_PRINTERS: Mapping[str, Callable[[dict[str, Any], int], None]] = {
    "auction": _print_nodes,
    "spot": _print_instances,
    "timeshare": _print_pool,
    "edge": _print_sites,
}
