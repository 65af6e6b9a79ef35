"""Figures 5 to 8: the best AHAP and AHANP beside the baselines, at several settings.

A cell is mean utility / mean utility of the offline optimum over the same jobs. "The best" is the
one of the paper's 105 AHAP, or 7 AHANP, with the highest mean in that setting: what selection can
come to.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from rich.console import Console

from auctune.charts.estimates import Panel, estimates_chart
from auctune.charts.theme import AnyChart
from auctune.numerics.arrays import Floats
from auctune.sim.figures import Rows, show, write_chart, write_data
from auctune.sim.spot.forecasts import market_forecasts
from auctune.sim.sweep import Cells, Sweep, cell_text, intervals, lead_text, table_of
from auctune.spot import (
    OnDemandOnly,
    Policy,
    Robust,
    SpotFirst,
    SpotJob,
    UniformProgress,
    default_pool,
)
from auctune.spot.forecasts import Arima, ForecastTable, SeasonalNaive
from spot_harness.markets import CAP, Markets
from spot_harness.options import Figure, Options
from spot_harness.trials import Trials, perfect_tables, same_job, tables_of

NUM_AHAP = 105
PERFECT, ARIMA, LAST = "perfect", "ARIMA", "last value"
# Forecasts reach as far as the longest job of any figure, for the robust policy.
FAR = 15
BASELINES = ("OD-Only", "MSU", "UP", "AHANP")


@dataclass(frozen=True, slots=True)
class Setting:
    """One place on a figure's axis.

    Attributes:
        label: under it.
        markets: to rent on.
        job: that is tried.
    """

    label: str
    markets: Markets
    job: SpotJob


@dataclass(frozen=True, slots=True)
class Varied:
    """What a figure varies.

    Attributes:
        name: of its files.
        title: of its table.
        axis: what differs.
        settings: those of one kind of markets.
        forecasts: beside perfect ones: `ARIMA`, or `LAST` where each setting has other markets.
        robust: whether the robust policy plays with these forecasts.
    """

    name: str
    title: str
    axis: str
    settings: Callable[[Markets], Sequence[Setting]]
    forecasts: str = ARIMA
    robust: bool = False


@dataclass(frozen=True, slots=True)
class Series:
    """A line of a table.

    Attributes:
        name: the line's.
        policy: that it stands for.
        utility: [j].
    """

    name: str
    policy: str
    utility: Floats


def sweep_figure(varied: Varied) -> Figure:
    """The figure of what is varied; its data: a row a job and series."""

    def run(options: Options, console: Console) -> pl.DataFrame:
        played = [
            part
            for markets in options.all_markets()
            for part in _played(varied, markets, options, console)
        ]
        frame = write_data(pl.concat(played), options.out, varied.name)
        write_chart(chart(frame, varied.axis), options.out, varied.name)
        show(
            console,
            varied.title,
            table(frame, varied.axis),
            [*notes(frame), f"data and charts: {options.out}"],
        )
        return frame

    return Figure(varied.name, run, lambda frame: table(frame, varied.axis), notes)


def _played(
    varied: Varied, markets: Markets, options: Options, console: Console
) -> Iterator[pl.DataFrame]:
    for setting in varied.settings(markets):
        with console.status(f"{varied.name}: {markets.name}, {setting.label}"):
            trials = same_job(setting.markets, setting.job, options.jobs, options.seed)
            optimum = trials.optimum()
            for series in series_of(trials, varied.forecasts, options, robust=varied.robust):
                yield pl.DataFrame(
                    {"seed": range(len(optimum)), "utility": series.utility, "optimum": optimum}
                ).with_columns(
                    market=pl.lit(markets.name),
                    setting=pl.lit(setting.label),
                    entry=pl.lit(series.name),
                    policy=pl.lit(series.policy),
                )


def series_of(
    trials: Trials, forecasts: str, options: Options, *, robust: bool = False
) -> list[Series]:
    """Everybody on the same jobs."""
    pool = default_pool()
    perfect = perfect_tables(trials.markets)
    plain = trials.utility((*pool, SpotFirst(), UniformProgress(), OnDemandOnly()), perfect)
    made = made_forecasts(trials.markets, forecasts, options)
    name = LAST if options.quick else forecasts
    predicted = trials.utility(pool[:NUM_AHAP], made)
    found = [
        _best(f"AHAP, {PERFECT}", pool, plain[:, :NUM_AHAP]),
        _best(f"AHAP, {name}", pool, predicted),
        _best("AHANP", pool[NUM_AHAP:], plain[:, NUM_AHAP:-3]),
        Series("UP", "up", plain[:, -2]),
        Series("MSU", "msu", plain[:, -3]),
        Series("OD-Only", "od-only", plain[:, -1]),
    ]
    if robust:
        cautious = Robust(risk=1.0)
        # Last, so that the others have the same colours in all figures.
        played = trials.utility((cautious,), made)[:, 0]
        found.append(Series(f"robust, {name}", cautious.name, played))
    return found


def made_forecasts(markets: Markets, forecasts: str, options: Options) -> list[ForecastTable]:
    """By ARIMA, kept on disk; or the last value, as in all quick runs."""
    if forecasts == ARIMA and not options.quick:
        arima = Arima(cap=CAP)
        return [
            market_forecasts(arima, market, FAR, options.forecasts) for market in markets.markets
        ]
    last = SeasonalNaive(1, CAP)
    return tables_of(markets, lambda _: last, FAR)


def _best(name: str, pool: Sequence[Policy], utility: Floats) -> Series:
    best = int(np.argmax(utility.mean(axis=0)))
    return Series(name, pool[best].name, utility[:, best])


def by_market(frame: pl.DataFrame) -> dict[str, Sweep]:
    """The trials of each kind of markets."""
    names = frame["market"].unique(maintain_order=True).to_list()
    return {name: Sweep(frame.filter(pl.col("market") == name)) for name in names}


def chart(frame: pl.DataFrame, axis: str) -> AnyChart:
    """A panel for each kind of markets; what is worth nothing on average lies below it."""
    panels = []
    for market, sweep in by_market(frame).items():
        ratios = sweep.ratios("utility", "optimum")
        shown = intervals({cell: one for cell, one in ratios.items() if one.value > 0})
        values = [replace(one, low=max(one.low, 0.0)) for one in shown]
        panels.append(Panel(f"utility / optimum, {market}", values, "dots", ".0%"))
    return estimates_chart(panels, axis=axis)


def table(frame: pl.DataFrame, axis: str) -> Rows:
    """For each kind of markets a row a series, then by how much AHAP is ahead."""
    rows: list[tuple[str, ...]] = []
    for market, sweep in by_market(frame).items():
        ratios, means = sweep.ratios("utility", "optimum"), sweep.means("utility")
        ahap = sweep.entries[0]
        rows.append((f"{market}:", *("" for _ in sweep.settings)))
        lines = {name: cell_text(ratios, name, ".1%") for name in sweep.entries}
        lines |= {
            f"{ahap}, over {baseline}": _lead_text(means, ahap, baseline) for baseline in BASELINES
        }
        rows += table_of(axis, sweep.settings, lines).rows
    return Rows((axis, *sweep.settings), tuple(rows))


def _lead_text(means: Cells, own: str, baseline: str) -> Callable[[str], str]:
    return lambda setting: lead_text(
        means[setting, own].value, means[setting, baseline].value, "+.0%"
    )


def notes(frame: pl.DataFrame) -> list[str]:
    """What must be said beside a table."""
    ahead, least, count = 0, 1.0, 0
    for sweep in by_market(frame).values():
        ratios, means = sweep.ratios("utility", "optimum"), sweep.means("utility")
        ahap = sweep.entries[0]
        for setting in sweep.settings:
            own = means[setting, ahap].value
            ahead += own >= max(means[setting, baseline].value for baseline in BASELINES)
            least = min(least, ratios[setting, ahap].value)
            count += 1
    return [
        f"utility / optimum, {frame['seed'].n_unique()} jobs ± 95% confidence",
        f"AHAP, perfect: {least:.1%} of the optimum at least; "
        f"ahead of all baselines in {ahead} of {count} settings",
    ]
