"""Look of all charts: palettes for light and for dark grounds, fonts, axes and legends.

Every colour of a chart comes from a palette, and both palettes have the same fields: a page can
recolour a finished SVG by swapping one palette's values for the other's (`recolouring`). Node
colours follow Okabe and Ito (2008), and the ramps grow evenly in lightness: readers with any
colour vision can tell them apart, also in grey print.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any

import altair as alt

FONT = "Helvetica Neue, Arial, sans-serif"
LABEL_SIZE = 11
NAME_WIDTH = 130
"""Pixels for a name on an axis at most; longer ones end in an ellipsis."""

# Pixels of a character at LABEL_SIZE, on the wide side.
CHARACTER_WIDTH = 6.4

LABEL_WIDTH = 30
# Of "14:05:06", and of "27 Nov" where a day begins.
TIME_WIDTH = 60
STEPS = (1, 2, 3, 4, 6, 8, 12, 24, 36, 48, 72, 144)

AnyChart = alt.Chart | alt.LayerChart | alt.FacetChart | alt.VConcatChart | alt.ConcatChart


@dataclass(frozen=True, slots=True)
class Palette:
    """Colours as #rrggbb, no two the same.

    Attributes:
        ink, muted, grid, surface: of text, of minor text and lines, of grids, of the ground.
        accent: for a single series.
        pending: for time spent waiting for a vendor, and for what was asked but not sold.
        warning: for what went wrong.
        vendor, operating, market: parts of a payment.
        nodes: one a node, while there are few enough to tell apart.
        price_ramp, use_ramp: from nothing to most, for prices and for shares in use.
        text_on_low, text_on_high: of text on the ramps' halves.
    """

    ink: str
    muted: str
    grid: str
    surface: str
    accent: str
    pending: str
    warning: str
    vendor: str
    operating: str
    market: str
    text_on_low: str
    text_on_high: str
    nodes: tuple[str, ...]
    price_ramp: tuple[str, ...]
    use_ramp: tuple[str, ...]

    def colours(self) -> list[str]:
        """Return all of them, in the order of the fields."""
        values = [getattr(self, field.name) for field in fields(self)]
        return [c for value in values for c in ([value] if isinstance(value, str) else value)]


LIGHT = Palette(
    ink="#1c2128",
    muted="#5d6773",
    grid="#e3e7ec",
    surface="#ffffff",
    accent="#0b66a3",
    pending="#b9c0c9",
    warning="#b3261e",
    vendor="#c4703a",
    operating="#9aa4b0",
    market="#1a6fb0",
    text_on_low="#24303d",
    text_on_high="#fdfefe",
    nodes=("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"),
    price_ramp=("#eef3f9", "#d5e4f2", "#b0cee6", "#82b3d7", "#3a7aae", "#215f96", "#0c4175"),
    use_ramp=("#eef6f2", "#bcdfd0", "#7cbea4", "#2a7d62", "#0a5140"),
)

DARK = Palette(
    ink="#e8ecf1",
    muted="#9aa6b4",
    grid="#2c343e",
    surface="#161b22",
    accent="#5bb0e8",
    pending="#56616e",
    warning="#ff8a80",
    vendor="#e39a68",
    operating="#7f8b99",
    market="#4d9fdc",
    text_on_low="#d9e3ee",
    text_on_high="#0d1319",
    nodes=("#3d9fdb", "#f0813a", "#2fbf95", "#e09cc2", "#f3bb45", "#93d3f8"),
    price_ramp=("#1d2732", "#1f3a54", "#234c70", "#285f8c", "#4d90c3", "#88bade", "#d4e8f7"),
    use_ramp=("#1c2a27", "#1c4a40", "#226c5a", "#6bb79c", "#d2efe2"),
)


def recolouring(drawn: Palette = LIGHT, shown: Palette = DARK) -> dict[str, str]:
    """For each colour of the palette that a chart was drawn with, the one to show instead."""
    return dict(zip(drawn.colours(), shown.colours(), strict=True))


def inline_data(values: Sequence[Mapping[str, Any]]) -> alt.InlineData:
    """Rows that travel inside the chart."""
    return alt.InlineData(values=[dict(value) for value in values])


def apply_theme(chart: AnyChart, palette: Palette) -> AnyChart:
    """Return the finished chart in the common look."""
    themed: AnyChart = (
        chart.configure(background="transparent", font=FONT, padding=4)
        .configure_view(stroke=None)
        .configure_axis(
            domain=False,
            ticks=False,
            gridColor=palette.grid,
            labelColor=palette.muted,
            labelFontSize=LABEL_SIZE,
            labelPadding=6,
            labelLimit=NAME_WIDTH,
            titleColor=palette.muted,
            titleFontSize=LABEL_SIZE,
            titleFontWeight="normal",
            titlePadding=8,
        )
        .configure_legend(
            labelColor=palette.ink,
            labelFontSize=LABEL_SIZE,
            titleColor=palette.muted,
            titleFontSize=LABEL_SIZE,
            titleFontWeight="normal",
            labelLimit=NAME_WIDTH,
            symbolType="square",
            symbolSize=110,
            symbolStrokeWidth=0,
            orient="top",
            direction="horizontal",
            offset=10,
        )
        .configure_header(
            labelColor=palette.ink,
            labelFontSize=LABEL_SIZE + 1,
            labelFontWeight=600,
            labelAnchor="start",
            labelLimit=200,
        )
        .configure_title(
            color=palette.ink,
            fontSize=13,
            fontWeight=600,
            anchor="start",
            subtitleColor=palette.muted,
        )
    )
    return themed


def name_limit(width: int) -> int:
    """Pixels for a name on an axis of a chart this wide."""
    return min(NAME_WIDTH, int(0.3 * width))


def name_width(names: Sequence[str], width: int) -> int:
    """Pixels that the longest of these names takes on an axis, with its padding."""
    longest = max((len(name) for name in names), default=0)
    return 12 + min(name_limit(width), int(CHARACTER_WIDTH * longest))


def legend_columns(width: int) -> int:
    """Columns of a legend with more than two entries; 0: all in one row."""
    return 0 if width >= 600 else 2


@dataclass(frozen=True, slots=True)
class SlotTimes:
    """When slots begin.

    Attributes:
        start: unix time at which slot 0 begins.
        seconds: length of a slot.
    """

    start: float
    seconds: float

    def name(self, slot: float) -> str:
        """Return the beginning of a slot in UTC, by ISO 8601."""
        at = datetime.fromtimestamp(round(self.start + slot * self.seconds), UTC)
        return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def slot_name(slot: int, times: SlotTimes | None) -> str:
    """Return a slot's name in a text: its number, or its beginning."""
    return f"slot {slot}" if times is None else times.name(slot)


def slot_axis(
    field: str, slots: int, width: int, *, title: str = "slot", times: SlotTimes | None = None
) -> alt.X:
    """Channel x for the begin of a span, in slots.

    Args:
        field: begin of the span; its end is another field, in channel x2.
        slots: of the horizon.
        width: pixels of the plot.
        title: under the axis.
        times: labels the beginnings of slots, by ISO 8601, instead of their numbers in the middle.
    """
    step = label_step(slots, width if times is None else width * LABEL_WIDTH // TIME_WIDTH)
    middle = 0.5 if times is None else 0.0
    label = "floor(datum.value)"
    if times is not None:
        title = ""
        seconds = f"{round(times.start)} + datum.value * {times.seconds:g}"
        label = f"utcFormat(1000 * ({seconds}), '%Y-%m-%dT%H:%M:%SZ')"
    axis = alt.Axis(
        values=[slot + middle for slot in range(0, slots, step)],
        labelExpr=label,
        labelOverlap=False,
        labelFlush=False,
        grid=False,
        title=title,
    )
    scale = alt.Scale(domain=[0, slots], nice=False, zero=False)
    return alt.X(field, type="quantitative", scale=scale, axis=axis)


def label_step(slots: int, width: int) -> int:
    """Slots from one label to the next, so that labels do not touch."""
    fitting = max(1, width // LABEL_WIDTH)
    least = -(-slots // fitting)
    return next((step for step in STEPS if step >= least), least)
