"""Figure 2: prices and counts of spot GPUs over ten days, and what the paper says of its own.

The hour of the day explains a share of the variance of counts in any series, by chance; what is
shown beside it is the share that it explains when days begin at random hours, in 19 of 20 cases at
most.
"""

from collections.abc import Mapping

import numpy as np
import polars as pl
from rich.console import Console

from auctune.charts.curves import series_chart
from auctune.numerics.arrays import Floats
from auctune.numerics.rng import stream
from auctune.sim.figures import Rows, show, write_chart, write_data
from spot_harness.markets import DAY, Markets
from spot_harness.options import Figure, Options, main

NAME = "fig02_market"
TITLE = "Figure 2: a market of ten days"
DAYS = 10
_SHUFFLES = 200
PAPERS = ("the paper's", "about 0.6", "-", "some", "by day", "-")


def run(options: Options, console: Console) -> pl.DataFrame:
    """Compute, write and show the figure; its data: a row a slot."""
    shown = [_rows(markets) for markets in options.all_markets()]
    frame = write_data(pl.concat(shown), options.out, NAME)
    for column, title in (("available", "GPUs"), ("price", "price / on demand")):
        drawn = {
            market: own.filter((pl.col("series") == 0) & (pl.col("slot") < DAYS * DAY))[
                column
            ].to_list()
            for market, own in _by_market(frame).items()
        }
        write_chart(series_chart(drawn, 1800.0, title), options.out, f"{NAME}-{column}")
    show(console, TITLE, table(frame), [f"data and charts: {options.out}"])
    return frame


def table(frame: pl.DataFrame) -> Rows:
    """A row a market."""
    heads = (
        "market",
        "median price / 90th percentile",
        "price, mean ± deviation",
        "GPUs, mean ± deviation",
        "variance of GPUs that the hour explains",
        "slots without any",
    )
    measured = [_measured(name, own) for name, own in _by_market(frame).items()]
    return Rows(heads, (PAPERS, *measured))


def _rows(markets: Markets) -> pl.DataFrame:
    return pl.concat(
        pl.DataFrame(
            {
                "market": [markets.name] * one.num_slots,
                "series": np.full(one.num_slots, index),
                "slot": np.arange(one.num_slots),
                "price": one.price,
                "available": one.available,
            }
        )
        for index, one in enumerate(markets.markets)
    )


def _by_market(frame: pl.DataFrame) -> Mapping[str, pl.DataFrame]:
    names = frame["market"].unique(maintain_order=True)
    return {name: frame.filter(pl.col("market") == name) for name in names}


def _measured(name: str, own: pl.DataFrame) -> tuple[str, ...]:
    price, count = own["price"].to_numpy(), own["available"].to_numpy()
    series = [one["available"].to_numpy() for one in own.partition_by("series")]
    explained = np.mean([explained_by_hour(one) for one in series])
    chance = np.mean([_by_chance(one) for one in series])
    return (
        name,
        f"{np.median(price) / np.quantile(price, 0.9):.2f}",
        f"{price.mean():.3f} ± {price.std():.3f}",
        f"{count.mean():.1f} ± {count.std():.1f}",
        f"{explained:.0%} (by chance up to {chance:.0%})",
        f"{np.mean(count == 0):.0%}",
    )


def explained_by_hour(count: Floats) -> float:
    """Share of the variance that is between the slots of a day; of whole days."""
    days = count[: len(count) // DAY * DAY].reshape(-1, DAY)
    total = days.var()
    return float(days.mean(axis=0).var() / total) if total > 0 else 0.0


def _by_chance(count: Floats) -> float:
    random = stream(0, "hours")
    days = count[: len(count) // DAY * DAY].reshape(-1, DAY)
    shares = []
    for _ in range(_SHUFFLES):
        turned = [
            np.roll(day, int(by))
            for day, by in zip(days, random.integers(DAY, size=len(days)), strict=True)
        ]
        shares.append(explained_by_hour(np.concatenate(turned)))
    return float(np.quantile(shares, 0.95))


FIGURE = Figure(NAME, run, table)

if __name__ == "__main__":
    main(FIGURE, __doc__)
