"""Figures 5 to 8: the best AHAP and AHANP beside the baselines, at several settings.

A cell is mean utility / mean utility of the offline optimum over the same jobs. "The best" is the
one of the paper's 105 AHAP, or 7 AHANP, with the highest mean in that setting: what selection can
come to.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from rich.console import Console

from auctune.charts.estimates import Interval, Panel, estimates_chart
from auctune.charts.theme import AnyChart
from auctune.numerics.arrays import Floats
from auctune.numerics.estimates import mean_of, ratio_of
from auctune.sim.figures import Rows, show, write_chart, write_data
from auctune.sim.spot.forecasts import market_forecasts
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
SCHEMA = {
    "figure": pl.String,
    "market": pl.String,
    "setting": pl.String,
    "series": pl.String,
    "policy": pl.String,
    "jobs": pl.Int64,
    "utility": pl.Float64,
    "utility_half": pl.Float64,
    "optimum": pl.Float64,
    "ratio": pl.Float64,
    "ratio_half": pl.Float64,
}


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
class Sweep:
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


def sweep_figure(sweep: Sweep) -> Figure:
    """The figure of a sweep."""

    def run(options: Options, console: Console) -> pl.DataFrame:
        rows = [
            row
            for markets in options.all_markets()
            for row in _played(sweep, markets, options, console)
        ]
        frame = write_data(pl.DataFrame(rows, schema=SCHEMA), options.out, sweep.name)
        write_chart(chart(frame, sweep.axis), options.out, sweep.name)
        show(
            console,
            sweep.title,
            table(frame, sweep.axis),
            [*notes(frame), f"data and charts: {options.out}"],
        )
        return frame

    return Figure(sweep.name, run, lambda frame: table(frame, sweep.axis), notes)


def _played(
    sweep: Sweep, markets: Markets, options: Options, console: Console
) -> list[Mapping[str, object]]:
    rows: list[Mapping[str, object]] = []
    for setting in sweep.settings(markets):
        with console.status(f"{sweep.name}: {markets.name}, {setting.label}"):
            trials = same_job(setting.markets, setting.job, options.jobs, options.seed)
            optimum = trials.optimum()
            for series in series_of(trials, sweep.forecasts, options, robust=sweep.robust):
                named = {"figure": sweep.name, "market": markets.name, "setting": setting.label}
                rows.append({**named, **_row(series, optimum)})
    return rows


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


def _row(series: Series, optimum: Floats) -> Mapping[str, object]:
    mean, ratio = mean_of(series.utility), ratio_of(series.utility, optimum)
    return {
        "series": series.name,
        "policy": series.policy,
        "jobs": len(optimum),
        "utility": mean.value,
        "utility_half": mean.half_width,
        "optimum": float(optimum.mean()),
        "ratio": None if ratio is None else ratio.value,
        "ratio_half": None if ratio is None else ratio.half_width,
    }


def chart(frame: pl.DataFrame, axis: str) -> AnyChart:
    """A panel for each kind of markets; what is worth nothing on average lies below it."""
    panels = []
    for market in frame["market"].unique(maintain_order=True):
        rows = frame.filter((pl.col("market") == market) & (pl.col("ratio") > 0))
        values = [
            Interval(
                row["setting"],
                row["series"],
                row["ratio"],
                max(row["ratio"] - row["ratio_half"], 0.0),
                row["ratio"] + row["ratio_half"],
            )
            for row in rows.iter_rows(named=True)
        ]
        panels.append(Panel(f"utility / optimum, {market}", values, "dots", ".0%"))
    return estimates_chart(panels, axis=axis)


def table(frame: pl.DataFrame, axis: str) -> Rows:
    """For each kind of markets a row a series, then by how much AHAP is ahead."""
    settings = frame["setting"].unique(maintain_order=True).to_list()
    rows: list[tuple[str, ...]] = []
    for market in frame["market"].unique(maintain_order=True):
        own = frame.filter(pl.col("market") == market)
        cells = {(row["setting"], row["series"]): row for row in own.iter_rows(named=True)}
        names = own["series"].unique(maintain_order=True).to_list()
        rows.append((f"{market}:", *("" for _ in settings)))
        rows += [(name, *(_share(cells[one, name]) for one in settings)) for name in names]
        rows += [
            (
                f"{names[0]}, over {rival}",
                *(
                    lead(cells[s, names[0]]["utility"], cells[s, rival]["utility"])
                    for s in settings
                ),
            )
            for rival in ("OD-Only", "MSU", "UP", "AHANP")
        ]
    return Rows((axis, *settings), tuple(rows))


def _share(row: Mapping[str, float | None]) -> str:
    if row["ratio"] is None or row["ratio_half"] is None:
        return "-"
    return f"{row['ratio']:.1%} ±{100 * row['ratio_half']:.1f}"


def lead(own: float, other: float) -> str:
    """By how much `own` is more; nothing where the other is not above 0."""
    return f"{own / other - 1:+.0%}" if other > 0 else "-"


def notes(frame: pl.DataFrame) -> list[str]:
    """What must be said beside a table."""
    own = frame.filter(pl.col("series") == f"AHAP, {PERFECT}")
    rivals = frame.filter(pl.col("series").is_in(["AHANP", "UP", "MSU", "OD-Only"]))
    best = rivals.group_by("market", "setting").agg(pl.col("utility").max().alias("rival"))
    joined = own.join(best, on=["market", "setting"])
    ahead = joined.filter(pl.col("utility") >= pl.col("rival"))
    least = own["ratio"].min()
    assert isinstance(least, float)
    return [
        f"utility / optimum, {frame['jobs'][0]} jobs ± 95% confidence",
        f"AHAP, perfect: {least:.1%} of the optimum at least; "
        f"ahead of all baselines in {len(ahead)} of {len(joined)} settings",
    ]
