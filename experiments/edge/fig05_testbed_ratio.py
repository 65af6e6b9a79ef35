"""Figure 5: the offline optimum over the welfare that is reached, on the testbed.

The optimum is the bound that HiGHS proves in its time: ratios are a little too high.
Sums over the seeds are divided, not means of ratios taken: the welfare of a seed may be 0.
"""

import polars as pl
from rich.console import Console

from auctune.charts.estimates import Estimate, Line, Panel, estimates_chart
from auctune.sim.edge.settings import paper_testbed
from edgelab.options import Options
from edgelab.output import Figure, main, show, write
from edgelab.trials import collect, point

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
    rows = frame.filter(pl.col("ratio").is_not_null()).iter_rows(named=True)
    ratios = [
        Estimate("testbed", row["mechanism"], row["ratio"], row["ratio"], row["ratio"])
        for row in rows
    ]
    panel = Panel("optimum / welfare", ratios, "log dots", "~f", Line(PAPERS, "paper: 1.5"))
    write(frame, estimates_chart([panel], axis=""), options.out, NAME)
    show(console, "Figure 5: optimum / welfare", ratios)
    console.print(f"data and charts: {options.out}")
    return frame


FIGURE = Figure(NAME, run)

if __name__ == "__main__":
    main(FIGURE, __doc__)
