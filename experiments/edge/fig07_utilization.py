"""Figure 7: what of the testbed Eris has sold in each slot, by resource."""

import polars as pl
from rich.console import Console

from auctune.charts.edge_use import edge_use_chart
from auctune.sim.edge.contest import parse_player, play, use_by_slot
from auctune.sim.edge.settings import paper_testbed
from auctune.sim.figures import Rows, show, write_chart, write_data
from edge_harness.options import Figure, Options, main
from edge_harness.trials import instance_of

NAME = "fig07_utilization"


def run(options: Options, console: Console) -> pl.DataFrame:
    """Compute, write and show the figure, of seed 0; a row a slot."""
    instance = instance_of(paper_testbed(), 0, options)
    played = play("eris", parse_player("eris"), instance)
    use = use_by_slot(instance, played.decisions)
    frame = pl.DataFrame({"slot": range(instance.market.slots), **use})
    frame = write_data(frame, options.out, NAME)
    write_chart(edge_use_chart(use), options.out, NAME)
    notes = [f"data and charts: {options.out}"]
    show(console, "Figure 7: shares of the testbed in use", table(frame), notes)
    return frame


def table(frame: pl.DataFrame) -> Rows:
    """A row a resource."""
    shares = {column.name: column.to_numpy() for column in frame.drop("slot").iter_columns()}
    rows = ((name, f"{use.mean():.1%}", f"{use.max():.1%}") for name, use in shares.items())
    return Rows(("resource", "on average", "at the most"), tuple(rows))


FIGURE = Figure(NAME, run, table)

if __name__ == "__main__":
    main(FIGURE, __doc__)
