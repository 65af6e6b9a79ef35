"""Figure 3: total welfare on the testbed, beside the offline optimum."""

import polars as pl

from auctune.sim.edge.settings import paper_testbed
from edge_harness.options import main
from edge_harness.output import Shown, trials_figure
from edge_harness.trials import TESTBED, Point

NAME = "fig03_testbed_welfare"


def with_optimum(frame: pl.DataFrame) -> pl.DataFrame:
    """The best decisions that HiGHS found, and its bound, as two more mechanisms."""
    once = frame.unique(["setting", "seed"], maintain_order=True)
    found = (("optimum, found", "reached"), ("optimum, bound", "bound"))
    rows = [
        once.with_columns(pl.lit(name).alias("entry"), pl.col(column).alias("welfare"))
        for name, column in found
    ]
    return pl.concat([frame, *rows])


FIGURE = trials_figure(
    NAME,
    "Figure 3",
    "",
    [Point("testbed", paper_testbed(), TESTBED)],
    [Shown("welfare", "welfare, money")],
    "milp",
    with_optimum,
)

if __name__ == "__main__":
    main(FIGURE, __doc__)
