"""`auctune prices`: prices and use by slot and node; for operators."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from auctune.cli.service_options import DATA, ApiKey, AsJson, Data, Finder, Url, print_json
from auctune.cli.work_options import Zone
from auctune.domain.job_words import loss_text, state_word

if TYPE_CHECKING:
    from auctune.client import Client


def prices(
    zone: Zone = None,
    slots: Annotated[int, typer.Option(min=1, help="So many slots, from now on.")] = 12,
    as_json: AsJson = False,
    url: Url = None,
    api_key: ApiKey = None,
    data: Data = DATA,
) -> None:
    """Show a zone's market by slot: prices and use by node. For operators.

    A price is of a sample of work. Of a zone that rents it is the market and what is held, of one
    with a pool who shares it.
    """
    with Finder(url, api_key, data)() as client:
        shown = client.zone(zone)
        ask, show_it = _SHOWN.get(shown["kind"], _BY_NODE)
        found = ask(client, shown["id"])
    if as_json:
        print_json(found)
    else:
        show_it(found, slots)


def _show_nodes(found: dict[str, Any], slots: int) -> None:
    from auctune.cli.job_lines import clock
    from auctune.cli.wide import show, table_of

    nodes = [node["id"] for node in found["nodes"]]
    heads = [
        node["id"] + ("" if node["state"] == "up" else f" ({node['state']})")
        for node in found["nodes"]
    ]
    typer.echo(f"zone {found['zone']}: price of a sample of work, and share sold")
    table = table_of("slot", "begins", *heads, right=("slot", *heads))
    for index, row in enumerate(found["compute_price"][:slots]):
        begins = found["first_begins_at"] + index * found["slot_seconds"]
        used = found["compute_used"][index]
        cells = (f"{row[k]:.6f} {used[k]:>5.0%}" for k in range(len(nodes)))
        table.add_row(str(found["first_slot"] + index), clock(begins), *cells)
    show(table)


def _show_rented(found: dict[str, Any], slots: int) -> None:
    """The newest slots of the market, the newest last."""
    from auctune.cli.job_lines import clock
    from auctune.cli.wide import show, table_of

    heads = ("spot price", "available", "on demand", "spot")
    of = f"an instance on demand costs {found['unit_price']:g}"
    typer.echo(
        f"zone {found['zone']}: what a spot instance costs for a slot ({of}), and what is held"
    )
    table = table_of("slot", "begins", *heads, right=("slot", *heads))
    for row in found["slots"][-slots:]:
        price = f"{row['price'] * found['unit_price']:.4f}"
        counts = (str(row[name]) for name in ("available", "on_demand", "spot"))
        table.add_row(str(row["slot"]), clock(row["begins_at"]), price, *counts)
    show(table)


def _show_pool(found: dict[str, Any], slots: int) -> None:
    """Who shares the pool, and how in the newest slots."""
    from auctune.cli.job_lines import clock
    from auctune.cli.wide import show, table_of

    typer.echo(f"zone {found['zone']}: who shares its pool, and how")
    numbers = ("loss", "to reach", "share", "cost")
    table = table_of("job", "user", "state", *numbers, "deadline", "", right=numbers)
    for job in found["jobs"]:
        loss, target = job["best_loss"], job["target_loss"]
        best = "-" if loss is None else loss_text(loss, target)
        share = f"{job['share']:.0%}"
        own = job["job"], job["user"], state_word(job["state"])
        ends = clock(job["deadline"]), job["verdict"] or ""
        table.add_row(*own, best, f"{target:g}", share, job["cost"], *ends)
    show(table)
    table = table_of("slot", "begins", "shares", right=("slot",))
    for unit in found["units"][-slots:]:
        shares = ", ".join(f"{job} {share:.0%}" for job, share in unit["shares"].items())
        table.add_row(str(unit["unit"]), clock(unit["begins_at"]), shares)
    show(table)


def _show_sites(found: dict[str, Any], slots: int) -> None:
    """Prices of the sites' units and the share that is sold, and the traffic."""
    from auctune.cli.job_lines import clock
    from auctune.cli.wide import show, table_of

    units = [
        (place, kind, f"{site['id']} {name}" + ("" if site["state"] == "up" else " (lost)"))
        for place, site in enumerate(found["sites"])
        for kind, name in enumerate(found["types"])
        if site["capacity"].get(name)
    ]
    heads = [head for _, _, head in units]
    typer.echo(f"zone {found['zone']}: price of a unit, and share sold; MB that cross sites")
    table = table_of("slot", "begins", *heads, "MB", right=("slot", *heads, "MB"))
    for index, row in enumerate(found["price"][:slots]):
        begins = found["first_begins_at"] + index * found["slot_seconds"]
        cells = []
        for place, kind, _ in units:
            whole = found["sites"][place]["capacity"][found["types"][kind]]
            share = found["used"][index][place][kind] / whole
            cells.append(f"{row[place][kind]:.6f} {share:>5.0%}")
        crossed = f"{found['traffic_used_mb'][index]:.1f}"
        table.add_row(str(found["first_slot"] + index), clock(begins), *cells, crossed)
    show(table)


_Ask = Callable[["Client", str], dict[str, Any]]
_Show = Callable[[dict[str, Any], int], None]
_BY_NODE: tuple[_Ask, _Show] = (lambda client, zone: client.prices(zone), _show_nodes)
_SHOWN: Mapping[str, tuple[_Ask, _Show]] = {
    "spot": (lambda client, zone: client.rented(zone), _show_rented),
    "timeshare": (lambda client, zone: client.shares(zone), _show_pool),
    "edge": (lambda client, zone: client.sites(zone), _show_sites),
}
