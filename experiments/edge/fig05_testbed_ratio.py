"""Figure 5: the offline optimum over the welfare that is reached, on the testbed.

The optimum is the bound that HiGHS proves in its time: ratios are a little too high.
Sums over the seeds are divided, not means of ratios taken: the welfare of a seed may be 0.
"""

import polars as pl
from rich.console import Console

from auctune.charts.estimates import Estimate, Line, Panel, estimates_chart
from auctune.sim.edge.settings import paper_testbed
from auctune.sim.figures import Rows, show, write_chart, write_data
from edge_harness.options import Figure, Options, main
from edge_harness.output import means_table
from edge_harness.trials import collect, point

NAME = "fig05_testbed_ratio"
PAPERS = 1.5


def run(options: Options, console: Console) -> pl.DataFrame:
    """Compute, write and show the figure; a row a mechanism."""
    trials = collect([point("testbed", paper_testbed())], options, console, "milp")
    sums = trials.group_by("mechanism", maintain_order=True).agg(
        pl.col("bound").sum(), pl.col("welfare").sum()
    )
    frame = sums.with_columns(
        pl.when(pl.col("welfare") > 0).then(pl.col("bound") / pl.col("welfare")).alias("ratio")
    )
    frame = write_data(frame, options.out, NAME)
    line = Line(PAPERS, "paper: 1.5")
    panel = Panel("optimum / welfare", _ratios(frame), "log dots", "~f", line)
    write_chart(estimates_chart([panel], axis=""), options.out, NAME)
    notes = [f"data and charts: {options.out}"]
    show(console, "Figure 5: optimum / welfare", table(frame), notes)
    return frame


def table(frame: pl.DataFrame) -> Rows:
    """A row a mechanism."""
    return means_table("", _ratios(frame))


def _ratios(frame: pl.DataFrame) -> list[Estimate]:
    return [
        Estimate("testbed", row["mechanism"], row["ratio"], row["ratio"], row["ratio"])
        for row in frame.filter(pl.col("ratio").is_not_null()).iter_rows(named=True)
    ]


FIGURE = Figure(NAME, run, table)

if __name__ == "__main__":
    main(FIGURE, __doc__)
