"""Heat maps by node and slot: of any grid, of use, and of prices."""

import math
import struct
import zlib
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np
from numpy.typing import NDArray

from auctune.charts.theme import (
    LIGHT,
    AnyChart,
    Palette,
    SlotTimes,
    apply_theme,
    inline_data,
    name_limit,
    name_width,
    slot_axis,
)

FloatArray = NDArray[np.float64]

MAX_HEIGHT = 480
ROW_HEIGHT = 28
NAMED_ROW_HEIGHT = 12
NUMBER_WIDTH = 31
MAX_CELLS = 2500
PIXELS_PER_CELL = 4
ROUND = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)


@dataclass(frozen=True, slots=True, eq=False)
class HeatGrid:
    """What a heat map shows.

    Attributes:
        values: [slot, node], >= 0.
        nodes: names, the columns of `values`.
        quantity: what the values are, with their unit: the legend's title.
        largest: value of the ramp's end; None: the next round one above all values.
        decimals: of the numbers shown.
        column: what a column is.
        times: when columns begin, if they are slots of a clock.
    """

    values: FloatArray
    nodes: tuple[str, ...]
    quantity: str
    largest: float | None = None
    decimals: int = 1
    column: str = "slot"
    times: SlotTimes | None = None

    def __post_init__(self) -> None:
        if self.values.ndim != 2 or self.values.shape[1] != len(self.nodes):
            raise ValueError(
                f"values of shape {self.values.shape}; expected [slot, {len(self.nodes)} nodes]"
            )


def heat_map(grid: HeatGrid, ramp: Sequence[str], palette: Palette, *, width: int) -> AnyChart:
    """Slots from left to right, a row a node; cells with room carry their number.

    Grids of more than 2,500 cells are drawn as pixels: exact, but without tooltips.

    Args:
        grid: the numbers.
        ramp: colours from 0 to the largest value.
        palette: of the text.
        width: pixels of the whole chart, names included.
    """
    plot_width = max(60, width - name_width(grid.nodes, width) - 10)
    row_height = min(ROW_HEIGHT, MAX_HEIGHT / len(grid.nodes))
    step = round_step(float(grid.values.max(initial=0.0)) / len(ramp))
    frame = _Frame(
        grid=grid,
        ramp=tuple(ramp),
        largest=grid.largest or step * len(ramp),
        palette=palette,
        plot_width=plot_width,
        row_height=row_height,
        limit=name_limit(width),
    )
    layers = _pixels(frame) if is_fine(grid.values) else _rectangles(frame)
    chart: AnyChart = alt.layer(*layers)
    return chart.properties(width=plot_width, height=row_height * len(grid.nodes))


def is_fine(values: FloatArray) -> bool:
    """Return whether a grid has too many cells to draw each as a shape."""
    return values.size > MAX_CELLS


@dataclass(frozen=True, slots=True)
class _Frame:
    """A grid with all that its layers share."""

    grid: HeatGrid
    ramp: tuple[str, ...]
    largest: float
    palette: Palette
    plot_width: int
    row_height: float
    limit: int

    @property
    def slots(self) -> int:
        return len(self.grid.values)

    def x(self, field: str) -> alt.X:
        return slot_axis(
            field, self.slots, self.plot_width, title=self.grid.column, times=self.grid.times
        )

    def y(self) -> alt.Y:
        nodes = list(self.grid.nodes)
        overlap: Any = "greedy" if self.row_height < NAMED_ROW_HEIGHT else False
        axis = alt.Axis(title=None, labelOverlap=overlap, labelLimit=self.limit)
        return alt.Y("node:O", sort=nodes, axis=axis, scale=alt.Scale(domain=nodes, padding=0))

    def colour(self) -> alt.Color:
        scale = alt.Scale(type="quantize", domain=[0, self.largest], range=list(self.ramp))
        legend = alt.Legend(
            title=self.grid.quantity,
            format=",.4~f",
            gradientLength=min(self.plot_width, 260),
            gradientThickness=10,
            labelOverlap="greedy",
            labelSeparation=6,
            titleLimit=self.plot_width,
        )
        return alt.Color("value:Q", scale=scale, legend=legend)


def _rectangles(frame: _Frame) -> list[AnyChart]:
    cell_width = frame.plot_width / frame.slots
    roomy = frame.row_height >= NAMED_ROW_HEIGHT
    base = alt.Chart(inline_data(_cells(frame.grid))).encode(
        x=frame.x("slot"), y=frame.y(), description="description:N"
    )
    gap = 1 if roomy and cell_width >= 8 else 0
    cells = base.mark_rect(stroke=frame.palette.surface, strokeWidth=gap)
    layers: list[AnyChart] = [cells.encode(x2="end:Q", color=frame.colour())]
    if roomy and cell_width >= NUMBER_WIDTH:
        layers.append(_numbers(base, frame))
    return layers


def _pixels(frame: _Frame) -> list[AnyChart]:
    """One image of all cells, and an empty rectangle that brings axes and legend along."""
    values, count = frame.grid.values, len(frame.ramp)
    levels = np.clip(count * values / frame.largest, 0, count - 1).astype(np.uint8)
    height = frame.row_height * len(frame.grid.nodes)
    image = {
        "url": to_data_uri(encode_png(levels.T, frame.ramp, zoom=PIXELS_PER_CELL)),
        "slot": frame.slots / 2,
    }
    origin = {"slot": 0, "end": 0, "node": frame.grid.nodes[0], "value": 0}
    picture: AnyChart = (
        alt.Chart(inline_data([image]))
        .mark_image(width=frame.plot_width, height=height, aspect=False)
        .encode(x=frame.x("slot"), y=alt.value(height / 2), url="url:N")
    )
    axes: AnyChart = (
        alt.Chart(inline_data([origin]))
        .mark_rect()
        .encode(x=frame.x("slot"), x2="end:Q", y=frame.y(), color=frame.colour())
    )
    return [picture, axes]


def round_step(least: float) -> float:
    """Return the next round number from `least` on; 1 for nothing."""
    if not least > 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in ROUND if factor * power >= least)


def _numbers(base: alt.Chart, frame: _Frame) -> AnyChart:
    palette, count = frame.palette, len(frame.ramp)
    high = frame.largest * ((count + 1) // 2) / count
    colour = alt.condition(
        alt.datum.value >= high, alt.value(palette.text_on_high), alt.value(palette.text_on_low)
    )
    chart: AnyChart = base.mark_text(fontSize=10, aria=False).encode(
        x=frame.x("middle"), text="label:N", color=colour, description=alt.Undefined
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
            "description": f"{node}, "
            f"{f'{grid.column} {slot}' if grid.times is None else grid.times.name(slot)}: "
            f"{value:,.{grid.decimals}f} ({grid.quantity})",
        }
        for slot, row in enumerate(grid.values.tolist())
        for node, value in zip(grid.nodes, row, strict=True)
    ]


def utilization_map(
    used: FloatArray,
    nodes: tuple[str, ...],
    resource: str,
    palette: Palette = LIGHT,
    width: int = 500,
    *,
    times: SlotTimes | None = None,
) -> AnyChart:
    """Shares [slot, node] of capacity in use, 0 to 1, shown in percent.

    Args:
        used: the shares.
        nodes: names, the columns of `used`.
        resource: what is used: "compute", "memory".
        palette: colours.
        width: pixels of the whole chart.
        times: when slots begin; else they are numbered.
    """
    quantity = f"% of {resource} in use"
    grid = HeatGrid(100 * used, nodes, quantity, largest=100.0, decimals=0, times=times)
    return apply_theme(heat_map(grid, palette.use_ramp, palette, width=width), palette)


_MULTIPLES = {
    -9: "money per billion",
    -6: "money per million",
    -3: "money per thousand",
    0: "money per",
    3: "thousand money per",
    6: "million money per",
    9: "billion money per",
}


def price_map(
    prices: FloatArray,
    nodes: tuple[str, ...],
    unit: str,
    palette: Palette = LIGHT,
    width: int = 500,
    *,
    busiest: float = 1.0,
    times: SlotTimes | None = None,
) -> AnyChart:
    """Prices [slot, node], in money per unit.

    Args:
        prices: the prices.
        nodes: names, the columns of `prices`.
        unit: what a price is for: "sample" for compute, "GB-slot" for memory.
        palette: colours.
        width: pixels of the whole chart.
        busiest: largest share in use of a cell: where little is sold, the colours are those of low
            prices.
        times: when slots begin; else they are numbered.
    """
    ramp = palette.price_ramp
    most = float(prices.max(initial=0.0)) / max(busiest, 0.5 / len(ramp))
    if prices.size and prices.min() == prices.max():
        # One price everywhere is neither high nor low.
        most = max(most, 2.0 * float(prices.max()))
    exponent = engineering_exponent(most)
    quantity = f"{_MULTIPLES[exponent]} {unit}" + ("s" if exponent < 0 else "")
    values = prices / 10.0**exponent
    largest = round_step(most / 10.0**exponent / len(ramp)) * len(ramp)
    decimals = 2 if 0 < values.max(initial=0.0) < 10 else 1
    grid = HeatGrid(values, nodes, quantity, largest=largest, decimals=decimals, times=times)
    return apply_theme(heat_map(grid, ramp, palette, width=width), palette)


def engineering_exponent(largest: float) -> int:
    """The multiple of 3 within ±9 that, as a power of ten taken off, leaves about 1 to 999."""
    if not largest > 0:
        return 0
    return min(9, max(-9, 3 * math.floor(math.log10(largest) / 3)))


SIGNATURE = b"\x89PNG\r\n\x1a\n"
BIT_DEPTH, INDEXED = 8, 3


def encode_png(levels: NDArray[np.uint8], colours: Sequence[str], *, zoom: int) -> bytes:
    """Return an image whose pixel [row, column] has colour `colours[levels[row, column]]`.

    Args:
        levels: [row, column], the first row at the top.
        colours: #rrggbb, at most 256.
        zoom: pixels along each side of a cell, so that no viewer has to blur it.
    """
    image = np.repeat(np.repeat(levels, zoom, axis=0), zoom, axis=1)
    height, width = image.shape
    header = struct.pack(">IIBBBBB", width, height, BIT_DEPTH, INDEXED, 0, 0, 0)
    table = b"".join(bytes.fromhex(colour.removeprefix("#")) for colour in colours)
    # Each line begins with its filter: 0, none.
    lines = np.concatenate([np.zeros((height, 1), np.uint8), image], axis=1)
    chunks = ((b"IHDR", header), (b"PLTE", table), (b"IDAT", zlib.compress(lines.tobytes(), 9)))
    return SIGNATURE + b"".join(_chunk(*chunk) for chunk in (*chunks, (b"IEND", b"")))


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def to_data_uri(png: bytes) -> str:
    """Return the image as an address that needs no file."""
    return "data:image/png;base64," + b64encode(png).decode()
