"""A record beside what was made up like it: a line in a band."""

from collections.abc import Sequence
from dataclasses import dataclass

import altair as alt

from auctune.charts.palette import LIGHT, Palette
from auctune.charts.theme import AnyChart, apply_theme, inline_data

PANEL_HEIGHT = 190


@dataclass(frozen=True, slots=True)
class Band:
    """One panel.

    Attributes:
        x_title, y_title: of the axes, with units.
        x: rising.
        record: one a value of x.
        low, high: of what was made up, one a value of x.
    """

    x_title: str
    y_title: str
    x: Sequence[float]
    record: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]


def spot_likeness_chart(
    bands: Sequence[Band], palette: Palette = LIGHT, *, width: int = 720
) -> AnyChart:
    """Panels side by side: the record as a line, the middle 80% of what was made up as a band.

    Args:
        bands: the panels.
        palette: colours.
        width: pixels of the whole chart.
    """
    if not any(len(band.x) for band in bands):
        raise ValueError("no panel has a point; expected one at least")
    each = (width - 70 * len(bands)) // len(bands)
    panels = [_panel(band, palette, each) for band in bands]
    return apply_theme(alt.concat(*panels, spacing=24), palette)


def _panel(band: Band, palette: Palette, width: int) -> AnyChart:
    values = [
        {"x": x, "record": record, "low": low, "high": high}
        for x, record, low, high in zip(band.x, band.record, band.low, band.high, strict=True)
    ]
    x = alt.X(
        "x:Q",
        scale=alt.Scale(nice=False),
        axis=alt.Axis(title=band.x_title, grid=False, tickCount=5),
    )
    base = alt.Chart(inline_data(values)).encode(x=x)
    y_axis = alt.Axis(title=band.y_title, tickCount=5)
    area = base.mark_area(color=palette.pending, opacity=0.6).encode(
        y=alt.Y("low:Q", axis=y_axis), y2="high:Q"
    )
    line = base.mark_line(color=palette.accent, strokeWidth=2).encode(
        y=alt.Y("record:Q", axis=y_axis)
    )
    return alt.layer(area, line).properties(width=width, height=PANEL_HEIGHT)
