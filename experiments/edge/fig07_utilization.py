"""Figure 7: what of the testbed Eris has sold in each slot, by resource.

With the default prices, and with those of eq. 6, which the paper's figure is about.
"""

import polars as pl
from rich.console import Console

from auctune.charts.curves import edge_use_chart
from auctune.sim.edge.comparison import parse_player, play, use_by_slot
from auctune.sim.edge.settings import paper_testbed
from auctune.sim.figures import Rows, show, write_chart, write_data
from edge_harness.options import Figure, Options, main
from edge_harness.trials import instance_of

NAME = "fig07_utilization"
MECHANISMS = {"Eris": "eris", "Eris, eq. 6": "eris:pricing=paper"}


def run(options: Options, console: Console) -> pl.DataFrame:
    """Compute, write and show the figure, of seed 0; a row for each mechanism and slot."""
    instance = instance_of(paper_testbed(), 0, options)
    frames, uses = [], {}
    for name, label in MECHANISMS.items():
        use = use_by_slot(instance, play(label, parse_player(label), instance).decisions)
        slots = range(instance.market.slots)
        frames.append(pl.DataFrame({"mechanism": [name] * len(slots), "slot": slots, **use}))
        uses[NAME if label == "eris" else f"{NAME}-eq-6"] = use
    frame = write_data(pl.concat(frames), options.out, NAME)
    for chart, use in uses.items():
        write_chart(edge_use_chart(use), options.out, chart)
    notes = [f"data and charts: {options.out}"]
    show(console, "Figure 7: shares of the testbed in use", table(frame), notes)
    return frame


def table(frame: pl.DataFrame) -> Rows:
    """A row a resource."""
    names = frame["mechanism"].unique(maintain_order=True).to_list()
    heads = [f"{name}, {what}" for name in names for what in ("on average", "at the most")]
    rows = []
    for resource in frame.drop("mechanism", "slot").columns:
        cells = [resource]
        for name in names:
            use = frame.filter(pl.col("mechanism") == name)[resource].to_numpy()
            cells += [f"{use.mean():.1%}", f"{use.max():.1%}"]
        rows.append(tuple(cells))
    return Rows(("resource", *heads), tuple(rows))


FIGURE = Figure(NAME, run, table)

if __name__ == "__main__":
    main(FIGURE, __doc__)
