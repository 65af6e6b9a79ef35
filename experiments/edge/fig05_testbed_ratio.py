"""Figure 5: the offline optimum over the welfare that is reached, on the testbed.

The optimum is the bound that HiGHS proves in its time: ratios are a little too high.
Sums over the seeds are divided, not means of ratios taken, as the welfare of a seed may be 0; the
interval is that of the jackknife over seeds. Beside them stands the ratio that Theorem 5 proves for
the prices of eq. 6, 2 log2(gamma_d gamma_k).
"""

import math

import polars as pl
from rich.console import Console

from auctune.charts.estimates import Interval, Line, Panel, estimates_chart
from auctune.sim.edge.settings import paper_testbed
from auctune.sim.figures import Rows, show, write_chart, write_data
from edge_harness.options import Figure, Options, main
from edge_harness.output import means_table
from edge_harness.trials import TESTBED, Point, collect

NAME = "fig05_testbed_ratio"
PAPERS = 1.5


def run(options: Options, console: Console) -> pl.DataFrame:
    """Compute, write and show the figure; a row a mechanism."""
    trials = collect([Point("testbed", paper_testbed(), TESTBED)], options, console, "milp")
    rows = [
        {"mechanism": name, **_ratio(part["bound"].to_list(), part["welfare"].to_list())}
        for (name,), part in trials.group_by(["mechanism"], maintain_order=True)
    ]
    proved = theorem_5(paper_testbed().price_base)
    rows.append({"mechanism": "Theorem 5, eq. 6", "ratio": proved, "half": 0.0})
    frame = pl.DataFrame(rows)
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


def theorem_5(price_base: float) -> float:
    """Return the ratio that Pang et al. prove for bases that are the same for all types."""
    return 2 * math.log2(price_base * price_base)


def _ratio(bounds: list[float], welfare: list[float]) -> dict[str, float | None]:
    """Return the ratio of the sums, and two standard errors of it."""
    if not sum(welfare) > 0:
        return {"ratio": None, "half": None}
    ratio, number = sum(bounds) / sum(welfare), len(bounds)
    without = [
        (sum(bounds) - one) / (sum(welfare) - its)
        for one, its in zip(bounds, welfare, strict=True)
        if sum(welfare) > its
    ]
    if len(without) < number or number < 2:
        return {"ratio": ratio, "half": 0.0}
    mean = sum(without) / number
    variance = (number - 1) / number * sum((one - mean) ** 2 for one in without)
    return {"ratio": ratio, "half": 2 * math.sqrt(variance)}


def _ratios(frame: pl.DataFrame) -> list[Interval]:
    return [
        Interval(
            "testbed",
            row["mechanism"],
            row["ratio"],
            row["ratio"] - row["half"],
            row["ratio"] + row["half"],
        )
        for row in frame.filter(pl.col("ratio").is_not_null()).iter_rows(named=True)
    ]


FIGURE = Figure(NAME, run, table)

if __name__ == "__main__":
    main(FIGURE, __doc__)
