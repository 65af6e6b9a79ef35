"""Figure 3: forecasts half an hour ahead beside what came, and their errors up to 5 slots ahead."""

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl
from rich.console import Console

from auctune.charts.curves import Curve, CurvePanel, curves_chart
from auctune.charts.theme import AnyChart
from auctune.sim.figures import Rows, show, write_chart, write_data
from auctune.spot.forecasts import ForecastTable, SeasonalNaive
from spot_harness.markets import CAP, DAY, Markets
from spot_harness.options import Figure, Options, main
from spot_harness.sweeps import ARIMA, LAST, made_forecasts
from spot_harness.trials import HORIZON, tables_of

NAME = "fig03_forecasts"
TITLE = "Figure 3: forecasts"
SHOWN_DAYS = 5
# Before it, forecasters have not seen enough.
LEARNT = 2 * DAY
AHEAD = (1, 2, 5)


def run(options: Options, console: Console) -> pl.DataFrame:
    """Compute, write and show the figure; its data: a row a forecast."""
    frames = []
    for markets in options.all_markets():
        with console.status(f"{NAME}: {markets.name}"):
            frames += [
                _rows(markets, name, tables) for name, tables in _tables(markets, options).items()
            ]
    frame = write_data(pl.concat(frames), options.out, NAME)
    write_chart(chart(frame), options.out, NAME)
    show(console, TITLE, table(frame), [f"data and charts: {options.out}"])
    return frame


def chart(frame: pl.DataFrame) -> AnyChart:
    """The first market of each kind: what came, and what was said of it half an hour before."""
    panels = []
    for market in frame["market"].unique(maintain_order=True):
        own = frame.filter(
            (pl.col("market") == market)
            & (pl.col("series") == 0)
            & (pl.col("ahead") == 1)
            & (pl.col("slot") < LEARNT + SHOWN_DAYS * DAY)
        )
        first = own["forecaster"][0]
        said = own.filter(pl.col("forecaster") == first)
        days = ((said["slot"] - LEARNT) / DAY).to_list()
        panels += [
            CurvePanel(
                f"{market}: {words}",
                unit,
                [
                    Curve("what came", days, said[column].to_list()),
                    Curve(f"{first}, half an hour before", days, said[f"{column}_said"].to_list()),
                ],
            )
            for column, words, unit in (
                ("available", "spot GPUs", "GPUs"),
                ("price", "spot price", "price / on demand"),
            )
        ]
    return curves_chart(panels, x_title="days", height=100)


def table(frame: pl.DataFrame) -> Rows:
    """A row a market and forecaster."""
    heads = (
        "forecaster",
        *(f"{what}, {ahead} ahead" for what in ("GPUs", "price") for ahead in AHEAD),
    )
    rows: list[tuple[str, ...]] = []
    for market in frame["market"].unique(maintain_order=True):
        rows.append((f"{market}:", *("" for _ in heads[1:])))
        own = frame.filter(pl.col("market") == market)
        for name in own["forecaster"].unique(maintain_order=True):
            made = own.filter(pl.col("forecaster") == name)
            cells = [
                _error(made.filter(pl.col("ahead") == ahead), what, digits)
                for what, digits in (("available", 2), ("price", 4))
                for ahead in AHEAD
            ]
            rows.append((name, *cells))
    return Rows(heads, tuple(rows))


def _error(made: pl.DataFrame, column: str, digits: int) -> str:
    """Mean absolute error, and the share of the variance that was predicted."""
    came, said = made[column].to_numpy(), made[f"{column}_said"].to_numpy()
    error = np.abs(said - came).mean()
    predicted = 1 - np.square(said - came).mean() / came.var() if came.var() > 0 else 1.0
    return f"{error:.{digits}f} ({predicted:.0%})"


def _tables(markets: Markets, options: Options) -> Mapping[str, Sequence[ForecastTable]]:
    last, season = SeasonalNaive(1, CAP), SeasonalNaive(DAY, CAP)
    naive = {
        LAST: tables_of(markets, lambda _: last),
        "a day before": tables_of(markets, lambda _: season),
    }
    if options.quick:
        return naive
    return {ARIMA: made_forecasts(markets, ARIMA, options), **naive}


def _rows(markets: Markets, name: str, tables: Sequence[ForecastTable]) -> pl.DataFrame:
    frames = []
    for index, (market, made) in enumerate(zip(markets.markets, tables, strict=True)):
        slots = np.arange(LEARNT, market.num_slots - HORIZON)
        for ahead in AHEAD:
            came = slots + ahead
            frames.append(
                pl.DataFrame(
                    {
                        "market": [markets.name] * len(slots),
                        "series": np.full(len(slots), index),
                        "forecaster": [name] * len(slots),
                        "ahead": np.full(len(slots), ahead),
                        "slot": came,
                        "available": market.available[came],
                        "available_said": made.available[slots, ahead - 1],
                        "price": market.price[came],
                        "price_said": made.price[slots, ahead - 1],
                    }
                )
            )
    return pl.concat(frames)


FIGURE = Figure(NAME, run, table)

if __name__ == "__main__":
    main(FIGURE, __doc__)
