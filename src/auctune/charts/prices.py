"""Prices of compute and memory by node and slot."""

import math

import numpy as np
from numpy.typing import NDArray

from auctune.charts.heat_map import HeatGrid, heat_map, round_step
from auctune.charts.palette import LIGHT, Palette
from auctune.charts.theme import AnyChart, apply_theme

FloatArray = NDArray[np.float64]
_MULTIPLES = {
    -9: "money per billion",
    -6: "money per million",
    -3: "money per thousand",
    0: "money per",
    3: "thousand money per",
    6: "million money per",
    9: "billion money per",
}


def compute_price_map(
    prices: FloatArray,
    nodes: tuple[str, ...],
    palette: Palette = LIGHT,
    width: int = 500,
    *,
    busiest: float = 1.0,
) -> AnyChart:
    """Prices [slot, node] of compute, in money per sample.

    `busiest` is the largest share in use of a cell: where little is sold, the colours are those of
    low prices.
    """
    return _price_map(prices, nodes, "sample", palette, width, busiest)


def memory_price_map(
    prices: FloatArray,
    nodes: tuple[str, ...],
    palette: Palette = LIGHT,
    width: int = 500,
    *,
    busiest: float = 1.0,
) -> AnyChart:
    """Prices [slot, node] of memory, in money per GB and slot.

    `busiest` is the largest share in use of a cell: where little is sold, the colours are those of
    low prices.
    """
    return _price_map(prices, nodes, "GB-slot", palette, width, busiest)


def site_price_map(
    prices: FloatArray, units: tuple[str, ...], palette: Palette = LIGHT, width: int = 500
) -> AnyChart:
    """Prices [slot, unit] of what sites have, in money per unit and slot."""
    return _price_map(prices, units, "unit-slot", palette, width)


def _price_map(
    prices: FloatArray,
    nodes: tuple[str, ...],
    unit: str,
    palette: Palette,
    width: int,
    busiest: float = 1.0,
) -> AnyChart:
    exponent = engineering_exponent(float(prices.max(initial=0.0)))
    quantity = f"{_MULTIPLES[exponent]} {unit}" + ("s" if exponent < 0 else "")
    values, ramp = prices / 10.0**exponent, palette.price_ramp
    most = float(values.max(initial=0.0)) / max(busiest, 0.5 / len(ramp))
    largest = round_step(most / len(ramp)) * len(ramp)
    grid = HeatGrid(values, nodes, quantity, largest=largest, decimals=1)
    return apply_theme(heat_map(grid, ramp, palette, width=width), palette)


def engineering_exponent(largest: float) -> int:
    """The multiple of 3 within ±9 that, as a power of ten taken off, leaves about 1 to 999."""
    if not largest > 0:
        return 0
    return min(9, max(-9, 3 * math.floor(math.log10(largest) / 3)))
