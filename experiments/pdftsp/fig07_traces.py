"""Figure 7: welfare with the arrivals of job logs, each given by --trace.

A log's days from --start-day on are played one after the other, each with the day before it as
history. Without a log: arrivals made up to be as bursty as Philly's.
"""

import polars as pl
from rich.console import Console

from harness.market import setting
from harness.options import Options
from harness.output import main
from harness.welfare import WelfareFigure, run_figure

MADE_UP = setting("made up, bursty", {"arrivals": "bursty"})


def run(options: Options, console: Console) -> pl.DataFrame:
    """Compute, write and show the figure; its data."""
    logs = [setting(trace.path.name.split(".")[0], {}, trace) for trace in options.traces]
    settings = logs or [MADE_UP]
    figure = WelfareFigure("fig07_traces", "Figure 7: job logs", "arrivals of", settings)
    return run_figure(figure, options, console)


if __name__ == "__main__":
    main(run, __doc__)
