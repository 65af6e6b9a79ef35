"""A number for each node and slot as a heat map, in steps of colour that can be read off."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np
from numpy.typing import NDArray

from auctune.charts.palette import Palette
from auctune.charts.slot_axis import slot_axis
from auctune.charts.theme import AnyChart, inline_data, name_width

FloatArray = NDArray[np.float64]

MAX_HEIGHT = 480
ROW_HEIGHT = 28
NAMED_ROW_HEIGHT = 12
NUMBER_WIDTH = 31
ROUND = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)


@dataclass(frozen=True, slots=True, eq=False)
class HeatGrid:
    """What a heat map shows.

    Attributes:
        values: [slot, node], >= 0.
        nodes: names, the columns of `values`.
        quantity: what the values are, with their unit: the legend's title.
        largest: value of the ramp's end; none: the next round one above all values.
        decimals: of the numbers shown.
    """

    values: FloatArray
    nodes: tuple[str, ...]
    quantity: str
    largest: float | None = None
    decimals: int = 1

    def __post_init__(self) -> None:
        if self.values.ndim != 2 or self.values.shape[1] != len(self.nodes):
            raise ValueError(
                f"values of shape {self.values.shape}; expected [slot, {len(self.nodes)} nodes]"
            )


def heat_map(grid: HeatGrid, ramp: Sequence[str], palette: Palette, *, width: int) -> AnyChart:
    """Slots from left to right, a row a node; cells with room carry their number.

    Args:
        grid: the numbers.
        ramp: colours from 0 to the largest value.
        palette: of the text.
        width: pixels of the whole chart, names included.
    """
    slots = len(grid.values)
    plot_width = max(60, width - name_width(list(grid.nodes)) - 10)
    row_height = min(ROW_HEIGHT, MAX_HEIGHT / len(grid.nodes))
    step = round_step(float(grid.values.max(initial=0.0)) / len(ramp))
    largest = grid.largest or step * len(ramp)
    base = alt.Chart(inline_data(_cells(grid))).encode(
        x=slot_axis("slot", slots, plot_width),
        y=_node_axis(grid, row_height),
        description="description:N",
    )
    scale = alt.Scale(type="quantize", domain=[0, largest], range=list(ramp))
    legend = alt.Legend(
        title=grid.quantity,
        format="~g",
        gradientLength=min(plot_width, 260),
        gradientThickness=10,
        titleLimit=plot_width,
    )
    gap = 1 if row_height >= NAMED_ROW_HEIGHT and plot_width / slots >= 8 else 0
    layers: list[AnyChart] = [
        base.mark_rect(stroke=palette.surface, strokeWidth=gap).encode(
            x2="end:Q", color=alt.Color("value:Q", scale=scale, legend=legend)
        )
    ]
    if plot_width / slots >= NUMBER_WIDTH and row_height >= NAMED_ROW_HEIGHT:
        high = largest * ((len(ramp) + 1) // 2) / len(ramp)
        middle = slot_axis("middle", slots, plot_width)
        layers.append(_numbers(base, middle, high, palette))
    return alt.layer(*layers).properties(width=plot_width, height=row_height * len(grid.nodes))


def round_step(least: float) -> float:
    """The next round number from `least` on; 1 for nothing."""
    if not least > 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in ROUND if factor * power >= least)


def _node_axis(grid: HeatGrid, row_height: float) -> alt.Y:
    axis = alt.Axis(title=None, labelOverlap="greedy" if row_height < NAMED_ROW_HEIGHT else False)
    return alt.Y("node:O", sort=list(grid.nodes), axis=axis, scale=alt.Scale(padding=0))


def _numbers(base: alt.Chart, middle: alt.X, high: float, palette: Palette) -> AnyChart:
    colour = alt.condition(
        alt.datum.value >= high, alt.value(palette.text_on_high), alt.value(palette.text_on_low)
    )
    chart: AnyChart = base.mark_text(fontSize=10, aria=False).encode(
        x=middle, text="label:N", color=colour, description=alt.Undefined
    )
    return chart


def _cells(grid: HeatGrid) -> list[dict[str, Any]]:
    return [
        {
            "slot": slot,
            "end": slot + 1,
            "middle": slot + 0.5,
            "node": node,
            "value": value,
            "label": f"{value:,.{grid.decimals}f}",
            "description": f"{node}, slot {slot}: {value:,.{grid.decimals}f} ({grid.quantity})",
        }
        for slot, row in enumerate(grid.values.tolist())
        for node, value in zip(grid.nodes, row, strict=True)
    ]
