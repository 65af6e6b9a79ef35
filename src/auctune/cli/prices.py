"""`auctune prices`: prices and use by slot and node; for operators."""

from typing import Annotated, Any

import typer

from auctune.cli.service_options import DATA, ApiKey, AsJson, Data, Finder, Url, print_json
from auctune.cli.work_options import Zone


def prices(
    zone: Zone = None,
    slots: Annotated[int, typer.Option(min=1, help="So many slots, from now on.")] = 12,
    as_json: AsJson = False,
    url: Url = None,
    api_key: ApiKey = None,
    data: Data = DATA,
) -> None:
    """Show prices and use by slot and node. A price is of a sample of work. For operators."""
    with Finder(url, api_key, data)() as client:
        name = zone or client.zone(None)["id"]
        found = client.prices(name)
    if as_json:
        print_json(found)
    else:
        _show(found, slots)


def _show(found: dict[str, Any], slots: int) -> None:
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
