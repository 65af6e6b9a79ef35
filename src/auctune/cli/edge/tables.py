"""What the commands of `auctune edge` show."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from auctune.sim.edge.contest import EdgeBound, EdgePlayed


def show_played(rows: "Sequence[EdgePlayed]", bound: "EdgeBound | None") -> None:
    """A line a mechanism, and the bound under them."""
    import statistics

    from auctune.cli._support.tables import make_table, print_table

    numbers = ("welfare", "profit", "run", "of bound", "p50 ms")
    table = make_table("mechanism", *numbers, right=numbers)
    for row in rows:
        seconds = statistics.median(row.seconds) if row.seconds else None
        share = None if bound is None or bound.value <= 0 else row.welfare / bound.value
        table.add_row(
            row.label,
            f"{row.welfare:,.1f}",
            f"{row.profit:,.1f}",
            f"{row.num_admitted} of {len(row.decisions)}",
            "-" if share is None else f"{share:.1%}",
            "-" if seconds is None else f"{seconds * 1e3:.1f}",
        )
    print_table(table)
    if bound is not None:
        typer.echo(f"no decisions have more welfare than {bound.value:,.1f} ({bound.kind})")
        if bound.reached is not None:
            ended = "the optimum" if bound.optimal else "the best found in the time"
            typer.echo(f"all bids known: {bound.reached:,.1f}, {ended}")
