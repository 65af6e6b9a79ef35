"""The record behind a market, as fine as its files: what a real run replays.

An instance that is gone within a slot is then taken away within it, and not left out of the slot
from its beginning on, as a market of slots has it.
"""

from dataclasses import dataclass

import numpy as np

from auctune.domain import InputError
from auctune.numerics.arrays import Floats, Ints
from auctune.sim.spot.recipe import FixedPrice, MarketRecipe, in_units
from auctune.sim.spot.trace import read_trace


@dataclass(frozen=True, slots=True, eq=False)
class SpotRecord:
    """A market from given seconds on, in units of the on-demand price.

    Attributes:
        seconds: [k] rising, the first one 0; each entry holds until the next.
        price: [k].
        available: [k].
    """

    seconds: Floats
    price: Floats
    available: Ints


def read_record(recipe: MarketRecipe) -> SpotRecord:
    """The record of a recipe; the price of a line of the counts is that of its beginning.

    Raises:
        InputError: as of `auctune.sim.spot.recipe.read_market`.
    """
    counts = read_trace(recipe.available.path)
    available = counts.recorded_available()
    seconds = counts.t_s - recipe.available.start_s
    first = int(np.searchsorted(seconds, 0.0, side="right")) - 1
    if first < 0:
        raise InputError(counts.place, f"begins at {counts.t_s[0]:g} s", "a record of the start")
    seconds = np.maximum(seconds[first:], 0.0)
    available = available[first:]
    source = recipe.price or recipe.available
    if isinstance(source, FixedPrice):
        price = np.full(len(seconds), source.price)
    else:
        prices = counts if source.path == recipe.available.path else read_trace(source.path)
        asked = source.start_s + seconds
        seconds, available = seconds[asked < prices.end_s], available[asked < prices.end_s]
        asked = asked[asked < prices.end_s]
        at = np.searchsorted(prices.t_s, asked, side="right") - 1
        if not len(at) or at[0] < 0:
            expected = f"prices from {source.start_s:g} s on"
            raise InputError(prices.place, f"begins at {prices.t_s[0]:g} s", expected)
        price = prices.recorded_price()[at]
    return SpotRecord(seconds, in_units(price, recipe.on_demand_price), available)
