"""Figure 7: what of the testbed Eris has sold in each slot, by resource.

With the prices of eq. 6, which the paper's figure is about, and with the default ones. The charts
show the first seed, the table means over all.
"""

import polars as pl
from rich.console import Console

from auctune.charts.curves import edge_use_chart
from auctune.registry.policies import EDGE_ENTRIES
from auctune.sim.edge.comparison import play, use_by_slot
from auctune.sim.edge.settings import paper_testbed
from auctune.sim.figures import Rows, show, write_chart, write_data
from auctune.sim.sweep import Sweep, table_of
from edge_harness.options import Figure, Options, main
from edge_harness.output import number
from edge_harness.trials import instance_of

NAME = "fig07_utilization"
MECHANISMS = {"Eris": "eris", "Eris, eq. 6": "eris:pricing=paper"}


def run(options: Options, console: Console) -> pl.DataFrame:
    """Compute, write and show the figure; a row for each mechanism, seed and slot."""
    frames = []
    for seed in range(options.seeds):
        instance = instance_of(paper_testbed(), seed, options)
        for name, label in MECHANISMS.items():
            use = use_by_slot(
                instance, play(label, EDGE_ENTRIES.parse(label, "mechanism"), instance).decisions
            )
            slots = range(instance.market.slots)
            whose = {"entry": [name] * len(slots), "seed": [seed] * len(slots)}
            frames.append(pl.DataFrame({**whose, "slot": slots, **use}))
            if seed == 0:
                chart = NAME if label == "eris" else f"{NAME}-eq-6"
                options.out.mkdir(parents=True, exist_ok=True)
                write_chart(edge_use_chart(use), options.out, chart)
    frame = write_data(pl.concat(frames), options.out, NAME)
    notes = [f"data and charts: {options.out}"]
    show(console, "Figure 7: shares of the testbed in use, %", table(frame), notes)
    return frame


def table(frame: pl.DataFrame) -> Rows:
    """A row a mechanism and resource: means over seeds of the slots' mean, and of their maximum."""
    resources = [name for name in frame.columns if name not in ("entry", "seed", "slot")]
    long = frame.unpivot(resources, index=["entry", "seed"], variable_name="resource")
    shares = (
        long.with_columns(entry=pl.format("{}, {}", "entry", "resource"))
        .group_by("entry", "seed", maintain_order=True)
        .agg(mean=100 * pl.mean("value"), largest=100 * pl.max("value"))
    )
    uses = {"on average": "mean", "at the most": "largest"}
    each = [
        shares.select("entry", "seed", pl.lit(words).alias("setting"), used=column)
        for words, column in uses.items()
    ]
    sweep = Sweep(pl.concat(each))
    means = sweep.means("used")
    lines = {name: number(means, name) for name in sweep.entries}
    return table_of("share of what there is, %", sweep.settings, lines)


FIGURE = Figure(NAME, run, table)

if __name__ == "__main__":
    main(FIGURE, __doc__)
