"""What could be attained, and why learned prices have less: by what they do not know of the day.

The gap between learned prices and the bound of a day is divided in four, by giving the same
mechanism a better forecast each time:

| known | what more it has is lost by |
| --- | --- |
| the law of arrivals, and the slots so far | not knowing the law: more could be learned |
| how many bids each slot brings | the course of the day, which the law leaves open |
| each bid | not knowing which bids come |
| | the policy, or by the bound, which does not pack tasks into nodes |

Beside them the fluid benchmark, at or above the mean of any policy, and of the bound.

By default 21 days in bursts and five even ones, the first of them those of other figures.
"""

from collections.abc import Callable, Mapping, Sequence

import polars as pl
from rich.console import Console

from auctune.charts.estimates import Panel, estimates_chart
from auctune.sim.jobs import run_jobs
from auctune.sim.sweep import Cells, Sweep, cell_text, intervals, table_of
from harness.market import Setting, setting
from harness.options import Options
from harness.output import Figure, Rows, main, show, write_chart, write_data
from harness.trials import (
    ATTAINABLE,
    FORESEEN,
    LAW_KNOWN,
    LEARNED,
    FluidOf,
    Trial,
    name_of,
)
from harness.welfare import collect, percent

NAME = "attainable"
_BURSTY = "bursts"
SETTINGS = (
    setting(_BURSTY, {"arrivals": "bursty"}),
    setting("80 bids a slot", {"rate": "80"}),
)
# Bursts differ so much from day to day that few days say little.
_DAYS = 21


def run(options: Options, console: Console) -> pl.DataFrame:
    """Compute, write and show the table; its data, with a column `fluid`."""
    settings = options.settings(SETTINGS)
    trials = [
        Trial(one, seed, LEARNED, knows)
        for one in settings
        for knows in ("", "law", "counts", "bids")
        for seed in range(_num_days(one, options))
    ]
    frame = collect(NAME, trials, options, console)
    fluid = _fluid(settings, options, console)
    frame = frame.with_columns(
        fluid=pl.col("setting").replace_strict(fluid, return_dtype=pl.Float64)
    )
    frame = write_data(frame, options.out, NAME)
    panel = Panel("welfare / bound", intervals(Sweep(frame).means("ratio"), name_of), "dots", ".0%")
    write_chart(estimates_chart([panel], axis="the day"), options.out, NAME)
    show(console, "What is attainable", table(frame), notes(frame))
    return frame


def _num_days(one: Setting, options: Options) -> int:
    return _DAYS if one.label == _BURSTY and not options.quick else options.seeds


def _fluid(settings: Sequence[Setting], options: Options, console: Console) -> Mapping[str, float]:
    jobs = [FluidOf(one, 2 if options.quick else 4) for one in settings]
    found = run_jobs(
        jobs, options.cache, workers=options.workers, console=console, fresh=options.fresh
    )
    return {job.setting.label: result["value"] for job, result in zip(jobs, found, strict=True)}


def table(frame: pl.DataFrame) -> Rows:
    """A column a setting: shares of the bound, and what of the gap is lost by what."""
    sweep = Sweep(frame)
    ratios, welfare = sweep.means("ratio"), sweep.means("welfare")
    by_law, by_counts, by_bids = (
        sweep.leads("ratio", name) for name in (LAW_KNOWN, ATTAINABLE, FORESEEN)
    )
    fluid = sweep.ratios("fluid", "bound")

    def share(mechanism: str) -> Callable[[str], str]:
        return lambda one: percent(ratios[one, mechanism])

    def points(cells: Cells, mechanism: str) -> Callable[[str], str]:
        return lambda one: cells[one, mechanism].text("+.1f", 100)

    def over(mechanism: str) -> Callable[[str], str]:
        return lambda one: f"{welfare[one, LEARNED].value / welfare[one, mechanism].value:.3f}"

    def left(one: str) -> str:
        return f"{100 * (1 - ratios[one, FORESEEN].value):+.1f}"

    lines = {name_of(name): share(name) for name in (LEARNED, LAW_KNOWN, ATTAINABLE, FORESEEN)}
    lines |= {
        "lost by not knowing the law": points(by_law, LEARNED),
        "lost by the course of the day": points(by_counts, LAW_KNOWN),
        "lost by not knowing the bids": points(by_bids, ATTAINABLE),
        "lost by the policy, or above the optimum": left,
        "learned / law known": over(LAW_KNOWN),
        "learned / counts known": over(ATTAINABLE),
        "fluid / mean bound": cell_text(fluid, LEARNED, ".3f"),
    }
    return table_of("the day", sweep.settings, lines)


def notes(frame: pl.DataFrame) -> list[str]:
    """What must be said beside the table."""
    days = frame.unique(["setting", "seed"]).group_by("setting", maintain_order=True).len()
    counts = ", ".join(f"{num} days ({one})" for one, num in sorted(days.iter_rows()))
    return [
        f"welfare / bound, means over {counts} ± 95% confidence; what is lost in points of the "
        "bound, on the same days",
    ]


FIGURE = Figure(NAME, run, table, notes)

if __name__ == "__main__":
    main(FIGURE, __doc__)
