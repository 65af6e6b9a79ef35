"""Figure 7: welfare with the arrivals of job logs, each given by --trace.

A log's days from --start-day on are played one after the other, each with the day before it as
history. Without a log: arrivals made up to be as bursty as Philly's.
"""

from harness.market import Setting, setting
from harness.options import Options
from harness.output import main
from harness.welfare import welfare_figure

MADE_UP = setting("synthetic, bursty", {"arrivals": "bursty"})


def markets(options: Options) -> list[Setting]:
    """One for each log."""
    logs = [setting(trace.path.name.split(".")[0], {}, trace) for trace in options.traces]
    return logs or [MADE_UP]


FIGURE = welfare_figure(
    "fig07_traces", "Figure 7: job logs", "arrivals of", markets, attainable=True
)

if __name__ == "__main__":
    main(FIGURE, __doc__)
