"""Markets to rent on: one made up after what the paper says of its own, and real records.

The paper took prices and counts from Vast.ai and published neither. It says that the median price
is about 60% of the 90th percentile, that counts have a daily cycle and are scaled down to 16 at
most, and that the on-demand price is 1. `PAPER_LIKE` is made up to be so; how quickly prices and
counts change is assumed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from auctune.sim.spot.generator import (
    V100_MARKET,
    CountParams,
    DailyCycle,
    MarketGenerator,
    PriceParams,
    Wave,
)
from auctune.sim.spot.trials import benchmark_markets
from auctune.spot import SpotMarket

CAP = 16
DAY = 48
HOUR = 3600.0
PAPER_LIKE = MarketGenerator(
    CountParams(
        cap=CAP,
        empty=0.05,
        full=0.05,
        waves=(Wave(1 * HOUR, 0.3), Wave(12 * HOUR, 0.7)),
        daily=DailyCycle(amplitude=0.8, peak_seconds=14 * HOUR),
    ),
    # 0.5 / (0.5 + 1.28 * 0.26) = 0.6.
    PriceParams(
        floor=0.1,
        mean=0.5,
        deviation=0.26,
        reversion_seconds=24 * HOUR,
        smoothing_seconds=1 * HOUR,
        changes_per_day=24,
    ),
)
MADE_UP_DAYS, NUM_MADE_UP = 30, 4


@dataclass(frozen=True, slots=True, eq=False)
class Markets:
    """Markets that belong together: a job begins in any of them.

    Attributes:
        name: as tables and charts show it.
        markets: each a series of slots.
    """

    name: str
    markets: tuple[SpotMarket, ...]

    @property
    def mean_count(self) -> float:
        """Spot GPUs on average."""
        return float(np.mean([market.available.mean() for market in self.markets]))

    @property
    def price_deviation(self) -> float:
        """Standard deviation of all prices together."""
        return float(np.concatenate([market.price for market in self.markets]).std())


def paper_like(seed: int = 0, days: int = MADE_UP_DAYS, count: int = NUM_MADE_UP) -> Markets:
    """Markets like the paper's own."""
    return made_up("paper-like", PAPER_LIKE, seed, days, count)


def like_records(seed: int = 0, days: int = MADE_UP_DAYS, count: int = NUM_MADE_UP) -> Markets:
    """Markets made up like the records: what there is without `--data`."""
    return made_up("made up like records", V100_MARKET, seed, days, count)


def made_up(name: str, generator: MarketGenerator, seed: int, days: int, count: int) -> Markets:
    """`count` markets of `days` days, each of a seed of its own."""
    return Markets(
        name, tuple(generator.market(days * DAY, 1000 * seed + index) for index in range(count))
    )


def records(folder: Path) -> Markets:
    """The benchmark market: real counts beside real prices.

    Raises:
        InputError: if a file of it is missing or wrong.
    """
    return Markets("records", tuple(named.market for named in benchmark_markets(folder)))


def with_counts(markets: Markets, factor: float) -> Markets:
    """All counts times a factor, rounded down: as the paper scaled its own."""
    return Markets(
        markets.name,
        tuple(
            SpotMarket(market.price, np.floor(market.available * factor + 1e-9).astype(np.int64))
            for market in markets.markets
        ),
    )


def with_deviation(markets: Markets, deviation: float) -> Markets:
    """Prices drawn together or apart around their common mean, to a standard deviation.

    Those that would be below 0 are 0, so that a wide spread comes out a little narrower.
    """
    prices = np.concatenate([market.price for market in markets.markets])
    mean, factor = prices.mean(), deviation / prices.std()
    return with_prices(markets, [mean + factor * (one.price - mean) for one in markets.markets])


def with_price_level(markets: Markets, mean: float) -> Markets:
    """Prices times a factor, so that they have this mean."""
    factor = mean / np.concatenate([market.price for market in markets.markets]).mean()
    return with_prices(markets, [factor * one.price for one in markets.markets])


def with_prices(markets: Markets, prices: Sequence[np.ndarray]) -> Markets:
    """The same counts at other prices, of which none is below 0."""
    return Markets(
        markets.name,
        tuple(
            SpotMarket(np.maximum(price, 0.0), market.available)
            for price, market in zip(prices, markets.markets, strict=True)
        ),
    )
