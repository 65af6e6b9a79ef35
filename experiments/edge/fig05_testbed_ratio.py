"""Figure 5: the offline optimum over the welfare that is reached, on the testbed.

The optimum is the bound that HiGHS proves in its time: ratios are a little too high.
Sums over the seeds are divided, not means of ratios taken, as the welfare of a seed may be 0; the
interval is that of a ratio of means. Beside them stands the ratio that Theorem 5 proves for
the prices of eq. 6, 2 log2(gamma_d gamma_k).
"""

import math

import polars as pl
from rich.console import Console

from auctune.charts.estimates import Line, Panel, estimates_chart
from auctune.sim.edge.settings import paper_testbed
from auctune.sim.figures import Rows, show, write_chart, write_data
from auctune.sim.sweep import Cells, Sweep, cell_text, intervals, table_of
from edge_harness.options import Figure, Options, main
from edge_harness.trials import TESTBED, Point, collect

NAME = "fig05_testbed_ratio"
PAPERS = 1.5


def run(options: Options, console: Console) -> pl.DataFrame:
    """Compute, write and show the figure; a row a trial."""
    points = [Point("testbed", paper_testbed(), TESTBED)]
    frame = write_data(collect(points, options, console, "milp"), options.out, NAME)
    ratios = intervals(_ratios(frame))
    panel = Panel("optimum / welfare", ratios, "log dots", "~f", Line(PAPERS, "paper: 1.5"))
    write_chart(estimates_chart([panel], axis=""), options.out, NAME)
    notes = [f"data and charts: {options.out}"]
    show(console, "Figure 5: optimum / welfare", table(frame), notes)
    return frame


def table(frame: pl.DataFrame) -> Rows:
    """A row a mechanism, then what Theorem 5 says."""
    sweep, ratios = Sweep(frame), _ratios(frame)
    lines = {name: cell_text(ratios, name, ".2f") for name in sweep.entries}
    proved = theorem_5(paper_testbed().price_base)
    lines["Theorem 5, eq. 6"] = lambda _: f"{proved:.2f}"
    return table_of("mechanism", sweep.settings, lines)


def _ratios(frame: pl.DataFrame) -> Cells:
    return Sweep(frame).ratios("bound", "welfare")


def theorem_5(price_base: float) -> float:
    """Return the ratio that Pang et al. prove for bases that are the same for all types."""
    return 2 * math.log2(price_base * price_base)


FIGURE = Figure(NAME, run, table)

if __name__ == "__main__":
    main(FIGURE, __doc__)
