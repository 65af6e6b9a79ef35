"""The benchmark market: real counts beside real prices, and jobs that start anywhere in them.

The counts are those of 16 V100 instances over 16 days, which came without prices. Beside them is
laid, in turn, the price of a one-GPU V100 instance in each of eight zones: from its beginning on,
and again from each later day on that leaves no day used twice. That makes 8 x 5 markets of 789
half-hours. Hours of the day keep step; the years differ (2023 and 2020), so that the join says
nothing about how price and count move together.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from auctune.domain import InputError
from auctune.numerics.rng import stream
from auctune.sim.spot.recipe import ON_DEMAND_V100, join
from auctune.sim.spot.trace import read_trace
from auctune.spot.market import SpotMarket

COUNTS = "sky_20230827_us-west-2a-v100-1gpu_16inst_probe.csv"
PRICES = "aws2020_*_v100-1gpu_price.csv"
CAP = 16
DAY_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True, eq=False)
class NamedMarket:
    """A market, and what it is made of.

    Attributes:
        name: the zone of its prices and their first day.
        market: all its slots.
    """

    name: str
    market: SpotMarket


@dataclass(frozen=True, slots=True)
class Start:
    """Where a job begins.

    Attributes:
        market: which of the markets.
        slot: the job's first slot in it.
    """

    market: int
    slot: int


def benchmark_markets(folder: Path, slot_seconds: float = 1800.0) -> tuple[NamedMarket, ...]:
    """All markets of the benchmark, zones by name, then by day.

    Args:
        folder: with the market files that `COUNTS` and `PRICES` name.
        slot_seconds: length of a slot.

    Raises:
        InputError: if a file is missing or wrong.
    """
    paths = sorted(folder.glob(PRICES))
    if not paths:
        raise InputError(str(folder), f"has no {PRICES}", "the files of the benchmark")
    counts = read_trace(folder / COUNTS)
    seconds = counts.end_s - float(counts.t_s[0])
    days = math.ceil(seconds / DAY_SECONDS)
    made = []
    for path in paths:
        prices = read_trace(path)
        zone = path.name.split("_")[1]
        last = prices.end_s - float(prices.t_s[0]) - seconds
        day = 0
        while day * DAY_SECONDS <= last:
            market = join(
                counts,
                prices,
                price_start_s=float(prices.t_s[0]) + day * DAY_SECONDS,
                on_demand_price=ON_DEMAND_V100,
                slot_seconds=slot_seconds,
            )
            made.append(NamedMarket(f"{zone}, day {day}", market))
            day += days
    return tuple(made)


def draw_starts(
    markets: Sequence[SpotMarket], num_jobs: int, num_slots: int, *, past: int = 96, seed: int = 0
) -> tuple[Start, ...]:
    """Independent starts: a market, then a slot of it, each with equal chances.

    Args:
        markets: to start in.
        num_jobs: how many starts; fewer are the first of more.
        num_slots: of a job, all within its market.
        past: slots that lie before every start, for forecasters to learn from.
        seed: of the draws.

    Raises:
        InputError: if a market is too short.
    """
    for index, market in enumerate(markets):
        if market.num_slots < past + num_slots:
            found = f"{market.num_slots} slots"
            raise InputError(f"markets[{index}]", found, f"{past} + {num_slots} at least")
    random = stream(seed, "starts", num_slots)
    starts = []
    for _ in range(num_jobs):
        chosen = int(random.integers(len(markets)))
        latest = markets[chosen].num_slots - num_slots
        starts.append(Start(chosen, int(random.integers(past, latest + 1))))
    return tuple(starts)
