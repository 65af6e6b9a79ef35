"""One look for all charts: quiet axes, no frames, colours from a palette."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from auctune.charts.palette import Palette

FONT = "Helvetica Neue, Arial, sans-serif"
LABEL_SIZE = 11
NAME_WIDTH = 130
"""Pixels for a name on an axis at most; longer ones end in an ellipsis."""

# Pixels of a character at LABEL_SIZE, on the wide side.
CHARACTER_WIDTH = 6.4

AnyChart = alt.Chart | alt.LayerChart | alt.FacetChart | alt.VConcatChart | alt.ConcatChart


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


LABEL_WIDTH = 30
STEPS = (1, 2, 3, 4, 6, 8, 12, 24, 36, 48, 72, 144)


def slot_axis(field: str, slots: int, width: int, *, title: str = "slot") -> alt.X:
    """Channel x for the begin of a span, in slots.

    Args:
        field: begin of the span; its end is another field, in channel x2.
        slots: of the horizon.
        width: pixels of the plot.
        title: under the axis.
    """
    step = label_step(slots, width)
    axis = alt.Axis(
        values=[slot + 0.5 for slot in range(0, slots, step)],
        labelExpr="floor(datum.value)",
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
