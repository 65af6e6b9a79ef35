"""Figures 8 (a) and 10: power laws by WLS and LS on the models of the pure bundle.

Fitted to the first fifth of each curve and drawn on to its end; the cells are root mean squared
differences of logarithms, over what was seen and beyond it.
"""

import polars as pl
from rich.console import Console

from auctune.charts.curves import curves_chart
from auctune.sim.figures import show, write_chart, write_data
from timeshare_harness.fits import fit_panels, fit_rows, fit_table
from timeshare_harness.options import Figure, Options, main

NAME = "fig10_fits"
TITLE = "Figures 8 (a) and 10: fits"


def run(options: Options, console: Console) -> pl.DataFrame:
    """Compute, write and show the figure; its data: a row a curve and estimator."""
    frame = write_data(pl.DataFrame(fit_rows(options.curves_of("pure"))), options.out, NAME)
    chart = curves_chart(fit_panels(frame), x_title="share of the batches; fitted to the first 0.2")
    write_chart(chart, options.out, NAME)
    show(console, TITLE, fit_table(frame), [f"data and charts: {options.out}"])
    return frame


FIGURE = Figure(NAME, run, fit_table)

if __name__ == "__main__":
    main(FIGURE, __doc__)
