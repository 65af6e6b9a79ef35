"""Figure 7: what of the testbed Eris has sold in each slot, by resource."""

import polars as pl
from rich.console import Console

from auctune.charts.edge_use import edge_use_chart
from auctune.sim.edge.contest import parse_player, play, use_by_slot
from auctune.sim.edge.settings import paper_testbed
from edgelab.options import Options
from edgelab.output import Figure, main, write
from edgelab.trials import instance_of

NAME = "fig07_utilization"


def run(options: Options, console: Console) -> pl.DataFrame:
    """Compute, write and show the figure, of seed 0; a row a slot."""
    instance = instance_of(paper_testbed(), 0, options)
    played = play("eris", parse_player("eris"), instance)
    use = use_by_slot(instance, played.decisions)
    frame = pl.DataFrame({"slot": range(instance.market.slots), **use})
    write(frame, edge_use_chart(use), options.out, NAME)
    for name, by_slot in use.items():
        console.print(f"{name}: {by_slot.mean():.1%} on average, {by_slot.max():.1%} at the most")
    console.print(f"data and charts: {options.out}")
    return frame


FIGURE = Figure(NAME, run)

if __name__ == "__main__":
    main(FIGURE, __doc__)
