"""How much of compute and memory is in use, by node and slot."""

import numpy as np
from numpy.typing import NDArray

from auctune.charts.heat_map import HeatGrid, heat_map
from auctune.charts.palette import LIGHT, Palette
from auctune.charts.theme import AnyChart, apply_theme

FloatArray = NDArray[np.float64]


def utilization_map(
    used: FloatArray,
    nodes: tuple[str, ...],
    resource: str,
    palette: Palette = LIGHT,
    width: int = 500,
) -> AnyChart:
    """Shares [slot, node] of capacity in use, 0 to 1, shown in percent.

    Args:
        used: the shares.
        nodes: names, the columns of `used`.
        resource: what is used: "compute", "memory".
        palette: colours.
        width: pixels of the whole chart.
    """
    grid = HeatGrid(100 * used, nodes, f"% of {resource} in use", largest=100.0, decimals=0)
    return apply_theme(heat_map(grid, palette.use_ramp, palette, width=width), palette)
