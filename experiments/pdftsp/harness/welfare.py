"""Figures of welfare: mechanisms at several settings, and each day's bound."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import polars as pl
from rich.console import Console

from auctune.charts.estimates import Line, Panel, estimates_chart
from auctune.charts.theme import AnyChart
from auctune.sim.jobs import run_jobs
from auctune.sim.sweep import Sweep, cell_text, intervals, lead_text, table_of
from harness.market import Setting, num_days
from harness.options import Options
from harness.output import Figure, Rows, show, write_chart, write_data
from harness.trials import ATTAINABLE, LEARNED, BoundOf, Trial, name_of, to_frame

GOAL = 0.909
# With more settings than a page is wide a row is a setting.
_MOST_COLUMNS = 7


def welfare_figure(
    name: str,
    title: str,
    axis: str,
    markets: Sequence[Setting] | Callable[[Options], Sequence[Setting]],
    more: Sequence[str] = (),
    shown: Callable[[pl.DataFrame], pl.DataFrame] = lambda frame: frame,
    *,
    attainable: bool = False,
) -> Figure:
    """A figure of welfare, and of welfare over its bound.

    Args:
        name: of its files.
        title: of its table.
        axis: what differs between its markets.
        markets: these, or what makes them of the options.
        more: mechanisms beside those of all figures.
        shown: what of the data its table and chart show.
        attainable: whether learned prices are also tried with the day's true counts of bids.
    """

    def table(frame: pl.DataFrame) -> Rows:
        rows = welfare_table(shown(frame), axis)
        return rows if len(rows.heads) <= _MOST_COLUMNS else rows.turned()

    def run(options: Options, console: Console) -> pl.DataFrame:
        wanted = markets(options) if callable(markets) else markets
        trials = [
            Trial(setting, seed, mechanism)
            for setting in options.settings(wanted)
            for mechanism in (*options.mechanisms, *more)
            for seed in range(seeds_of(setting, options.seeds))
        ]
        if attainable:
            trials += [replace(t, knows="counts") for t in trials if t.mechanism == LEARNED]
        frame = write_data(collect(name, trials, options, console), options.out, name)
        write_chart(welfare_chart(shown(frame), axis), options.out, name)
        show(console, title, table(frame), [*notes(frame), f"data and charts: {options.out}"])
        return frame

    return Figure(name, run, table, notes)


def seeds_of(setting: Setting, wanted: int) -> int:
    """Days to be had: a log may have fewer than are wanted."""
    return wanted if setting.trace is None else min(wanted, num_days(setting.trace))


def collect(
    name: str, trials: Sequence[Trial], options: Options, console: Console, kind: str = "lp"
) -> pl.DataFrame:
    """The data of trials beside the bounds of their days."""
    bounds = [BoundOf(*day, kind) for day in dict.fromkeys((t.setting, t.seed) for t in trials)]
    jobs: list[Trial | BoundOf] = [*trials, *bounds]
    results = run_jobs(
        jobs, options.cache, workers=options.workers, console=console, fresh=options.fresh
    )
    by_job: dict[Any, Any] = {
        (job.setting, job.seed) if isinstance(job, BoundOf) else job: result
        for job, result in zip(jobs, results, strict=True)
    }
    return to_frame(name, trials, by_job)


def welfare_chart(frame: pl.DataFrame, axis: str) -> AnyChart:
    """Welfare, and welfare over the bound, by setting and mechanism."""
    sweep, goal = Sweep(frame), Line(GOAL, f"{GOAL:.1%}")
    welfare = intervals(sweep.means("welfare"), name_of)
    ratios = intervals(sweep.means("ratio"), name_of)
    return estimates_chart(
        [
            Panel("welfare, money", welfare),
            Panel("welfare / bound", ratios, "dots", ".0%", goal),
        ],
        axis=axis,
    )


def welfare_table(frame: pl.DataFrame, axis: str) -> Rows:
    """A row a mechanism: welfare / bound at each setting; then the learned prices' own welfare.

    Their lead is given in percent of the baseline's welfare, as the paper gives it, and in points
    of the bound with the interval of the differences on the same days.
    """
    sweep = Sweep(frame)
    ratios, welfare = sweep.means("ratio"), sweep.means("welfare")
    points, mechanisms = sweep.leads("ratio", LEARNED), sweep.entries

    def money(one: str) -> str:
        return f"{welfare[one, LEARNED].value:,.0f}"

    def lead_over(baseline: str) -> Callable[[str], str]:
        def text(one: str) -> str:
            gain = lead_text(welfare[one, LEARNED].value, welfare[one, baseline].value, "+.1%")
            return f"{gain} ({points[one, baseline].text('+.1f', 100)})"

        return text

    def of_attainable(one: str) -> str:
        return f"{welfare[one, LEARNED].value / welfare[one, ATTAINABLE].value:.3f}"

    lines = {name_of(one): cell_text(ratios, one, ".1%") for one in mechanisms}
    lines[f"{name_of(LEARNED)}, welfare"] = money
    lines |= {
        f"{name_of(LEARNED)}, over {name_of(baseline)}": lead_over(baseline)
        for baseline in ("titan", "eft", "ntm")
        if baseline in mechanisms
    }
    if ATTAINABLE in mechanisms:
        lines["learned / counts known"] = of_attainable
    return table_of(axis, sweep.settings, lines)


def notes(frame: pl.DataFrame) -> list[str]:
    """What must be said beside a table."""
    kinds = ", ".join(frame["bound_kind"].unique().sort().to_list())
    exact = "the optimum" if frame["bound_exact"].all() else "no market has more welfare"
    own = frame.filter(pl.col("entry") == LEARNED).group_by("setting").agg(pl.mean("ratio"))
    least = own["ratio"].min()
    assert isinstance(least, float)
    return [
        f"welfare / bound ({kinds}: {exact}), mean of {frame['seed'].n_unique()} days "
        f"in {frame['block'].n_unique()} blocks ± 95% confidence over blocks; leads in percent of "
        "the baseline's welfare, and in points on the same days; the day before is known to those "
        "that learn",
        f"variance over mean of the bids of a slot: {_range(frame)}",
        f"{name_of(LEARNED)}: {least:.1%} at least; the goal of learned prices is {GOAL:.1%}",
    ]


def _range(frame: pl.DataFrame) -> str:
    """Return the least and the highest mean dispersion of a setting."""
    days = frame.unique(["setting", "seed"]).group_by("setting").agg(pl.mean("dispersion"))
    means = days["dispersion"].to_list()
    return f"{min(means):.1f} to {max(means):.1f}"
