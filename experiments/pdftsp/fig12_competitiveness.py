"""Figure 12: the bound on a day's welfare over what mechanisms reach, 1 being the best there is.

Small markets are measured by the offline optimum itself, one program solved to its end; large ones
by the Lagrangian bound, which no market reaches, so that their figures are a little too high.
"""

import polars as pl
from rich.console import Console

from auctune.charts.estimates import Line, Panel, estimates_chart
from auctune.charts.theme import AnyChart
from auctune.sim.sweep import Sweep, cell_text, intervals, table_of
from harness.market import Setting, setting
from harness.options import Options
from harness.output import Figure, Rows, main, show, write_chart, write_data
from harness.trials import Trial, name_of
from harness.welfare import collect

NAME = "fig12_competitiveness"
PAPERS = 3.0
_TINY = {"slots": "12"}
SMALL = [
    setting("optimum: 2 nodes", {**_TINY, "nodes": "a100:2", "rate": "2"}),
    setting("optimum: busy", {**_TINY, "nodes": "a100:1", "rate": "2"}),
    setting("optimum: tight", {**_TINY, "nodes": "a100:3", "rate": "3", "deadlines": "tight"}),
    setting("optimum: both types", {**_TINY, "nodes": "a100:1,a40:1", "rate": "1.5"}),
]
LARGE = [
    setting("bound: 30 a slot", {"rate": "30"}),
    setting("bound: 50 a slot", {"rate": "50"}),
    setting("bound: 80 a slot", {"rate": "80"}),
    setting("bound: loose deadlines", {"deadlines": "loose"}),
]


def run(options: Options, console: Console) -> pl.DataFrame:
    """Compute, write and show the figure; its data, with a column `competitive`."""
    # Small markets are small already.
    settings = [(SMALL[:1] if options.quick else SMALL, "milp"), (options.settings(LARGE), "lp")]
    frames = [
        collect(NAME, _trials(which, options), options, console, kind) for which, kind in settings
    ]
    reached = pl.when(pl.col("welfare") > 0).then(pl.col("welfare"))
    ratio = (pl.col("bound") / reached).alias("competitive")
    frame = write_data(pl.concat(frames).with_columns(ratio), options.out, NAME)
    write_chart(chart(frame), options.out, NAME)
    show(
        console,
        "Figure 12: bound / welfare",
        table(frame),
        [*notes(frame), f"data and charts: {options.out}"],
    )
    return frame


def chart(frame: pl.DataFrame) -> AnyChart:
    """A dot a mechanism at each setting; the paper's 3 across."""
    values = intervals(Sweep(frame).means("competitive"), name_of)
    panel = Panel("bound / welfare", values, "log dots", "~f", Line(PAPERS, "paper: 3"))
    return estimates_chart([panel], axis="measured by")


def table(frame: pl.DataFrame) -> Rows:
    """A row a mechanism."""
    sweep = Sweep(frame)
    cells = sweep.means("competitive")
    lines = {name_of(one): cell_text(cells, one, ".2f") for one in sweep.entries}
    return table_of("mechanism", sweep.settings, lines)


def notes(frame: pl.DataFrame) -> list[str]:
    """Which bound was which."""
    small = frame.filter(pl.col("bound_kind") == "milp")
    days = small.unique(["setting", "seed"])
    return [
        f"optimum: proven in {days['bound_exact'].sum()} of {len(days)} days, else what the search "
        "has proven; bound: Lagrangian, at or above the optimum",
    ]


def _trials(settings: list[Setting], options: Options) -> list[Trial]:
    return [
        Trial(setting, seed, mechanism)
        for setting in settings
        for mechanism in options.mechanisms
        for seed in range(options.seeds)
    ]


FIGURE = Figure(NAME, run, table, notes)

if __name__ == "__main__":
    main(FIGURE, __doc__)
