"""Recipes: which file, from which time on, gives a market its counts and which its prices."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from auctune.domain.checks import check_finite, check_positive
from auctune.numerics.arrays import Floats
from auctune.sim.spot.slots import slot_counts, slot_prices, whole_slots
from auctune.sim.spot.trace import SpotTrace, read_trace
from auctune.spot.market import SpotMarket

# USD for an hour of one GPU on demand, us-east-1, 2020.
ON_DEMAND_V100 = 3.06
ON_DEMAND_K80 = 0.90

# 0.918 USD of 3.06 is the threshold 0.3, not its neighbour.
_DECIMALS = 12


@dataclass(frozen=True, slots=True)
class FixedPrice:
    """A price that never changes, for counts that were recorded without one.

    Attributes:
        price: in the money of the on-demand price.
    """

    price: float

    def __post_init__(self) -> None:
        check_finite(self.price, "price", "a price >= 0")


@dataclass(frozen=True, slots=True)
class FromFile:
    """A series of a file.

    Attributes:
        path: a market file (auctune.sim.spot.trace).
        start_s: the second of that file with which slot 0 begins.
    """

    path: Path
    start_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MarketRecipe:
    """What a market is put together from; it lasts as long as the shorter of its series.

    Attributes:
        available: where the counts come from.
        price: where the prices come from; by default from the same.
        on_demand_price: of a GPU for an hour, in the money of the prices, which are divided by it.
        slot_seconds: length of a slot.
    """

    available: FromFile
    price: FromFile | FixedPrice | None = None
    on_demand_price: float = 1.0
    slot_seconds: float = 1800.0

    def __post_init__(self) -> None:
        check_positive(self.on_demand_price, "on_demand_price", "a number > 0")
        check_positive(self.slot_seconds, "slot_seconds", "a number > 0")


def read_market(recipe: MarketRecipe) -> SpotMarket:
    """The market of a recipe, in units of the on-demand price.

    Raises:
        InputError: if a file is wrong, lacks the series wanted of it, or ends before its start.
    """
    counts = read_trace(recipe.available.path)
    # Before anything else is read: the commonest mistake is a file of prices alone.
    counts.recorded_available()
    start_s, seconds = recipe.available.start_s, recipe.slot_seconds
    num_slots = whole_slots(counts, start_s, seconds)
    source = recipe.price or recipe.available
    if isinstance(source, FixedPrice):
        price: Floats = np.full(num_slots, source.price)
    else:
        prices = counts if source.path == recipe.available.path else read_trace(source.path)
        prices.recorded_price()
        num_slots = min(num_slots, whole_slots(prices, source.start_s, seconds))
        price = slot_prices(prices, source.start_s, seconds, num_slots)
    available = slot_counts(counts, start_s, seconds, num_slots)
    return SpotMarket(in_units(price, recipe.on_demand_price), available, slot_seconds=seconds)


def in_units(price: Floats, on_demand_price: float) -> Floats:
    """Prices divided by the on-demand price."""
    return np.round(price / on_demand_price, _DECIMALS)


def join(
    counts: SpotTrace,
    prices: SpotTrace,
    *,
    price_start_s: float,
    on_demand_price: float,
    slot_seconds: float,
) -> SpotMarket:
    """All slots of some counts, beside the prices from `price_start_s` on.

    Raises:
        InputError: if a series is missing, or the prices end before the counts.
    """
    start_s = float(counts.t_s[0])
    num_slots = whole_slots(counts, start_s, slot_seconds)
    price = slot_prices(prices, price_start_s, slot_seconds, num_slots)
    available = slot_counts(counts, start_s, slot_seconds, num_slots)
    return SpotMarket(in_units(price, on_demand_price), available, slot_seconds=slot_seconds)
