"""Means with their confidence intervals, of several series at several settings, in panels."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import altair as alt

from auctune.charts.theme import (
    CHARACTER_WIDTH,
    LABEL_SIZE,
    LIGHT,
    AnyChart,
    Palette,
    apply_theme,
    inline_data,
)

PANEL_HEIGHT = 190
Kind = Literal["bars", "dots", "log dots"]
_SYMBOL = 24
_WORDS = 56


@dataclass(frozen=True, slots=True)
class Interval:
    """A series at a setting: a mean, and the interval in which it lies."""

    setting: str
    series: str
    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Line:
    """A level to compare with, and in words what it is."""

    value: float
    words: str


@dataclass(frozen=True, slots=True)
class Panel:
    """One quantity.

    Attributes:
        title: of its axis, with the unit.
        estimates: each series once at a setting; means > 0 for "log dots".
        kind: bars from 0, or dots, on a linear or a logarithmic axis; there an interval that
            reaches far down is cut at a tenth of its mean.
        format: of the axis' numbers, as d3 has it.
        line: drawn across.
    """

    title: str
    estimates: Sequence[Interval]
    kind: Kind = "bars"
    format: str = "~s"
    line: Line | None = None


def estimates_chart(
    panels: Sequence[Panel],
    palette: Palette = LIGHT,
    *,
    axis: str,
    width: int = 720,
) -> AnyChart:
    """Panels one above the other over the same settings; a colour for each series.

    Args:
        panels: settings and series stand in the order in which the first panel has them.
        palette: colours.
        axis: what differs between settings.
        width: pixels of the whole chart.
    """
    first = panels[0].estimates
    settings = list(dict.fromkeys(one.setting for one in first))
    series = list(dict.fromkeys(one.series for panel in panels for one in panel.estimates))
    # Room for numbers on the left, and for the words of lines on the right.
    plot = width - 84 - (_WORDS if any(panel.line for panel in panels) else 0)
    colour = alt.Color(
        "series:N",
        scale=alt.Scale(domain=series, range=[_colour(palette, i) for i in range(len(series))]),
        legend=alt.Legend(title=None, columns=_columns(series, width), labelLimit=300),
    )
    offset = alt.XOffset("series:N", sort=series, scale=alt.Scale(domain=series))
    drawn = [
        _panel(panel, x, offset, colour, palette).properties(width=plot, height=PANEL_HEIGHT)
        for panel, x in zip(panels, _axes(settings, axis, plot, len(panels)), strict=True)
    ]
    return apply_theme(alt.vconcat(*drawn, spacing=18), palette)


def _axes(settings: Sequence[str], title: str, plot: int, count: int) -> list[alt.X]:
    """Return the x axis of each panel; only the last one shows the names."""
    # They are slanted where they would run into each other.
    slanted = max(map(len, settings)) * CHARACTER_WIDTH > plot / len(settings)
    named = alt.Axis(labelAngle=-25 if slanted else 0, grid=False, labelLimit=220)
    bare = alt.Axis(labels=False, grid=False)
    scale = alt.Scale(paddingInner=0.12, paddingOuter=0.06)
    return [
        alt.X(
            "setting:N",
            sort=list(settings),
            title=title if index == count - 1 else None,
            scale=scale,
            axis=named if index == count - 1 else bare,
        )
        for index in range(count)
    ]


def _panel(
    panel: Panel, x: alt.X, offset: alt.XOffset, colour: alt.Color, palette: Palette
) -> AnyChart:
    data = alt.Chart(inline_data([_row(one, panel) for one in panel.estimates]))
    y = alt.Y(
        "mean:Q",
        title=panel.title,
        scale=_scale(panel),
        axis=alt.Axis(**_ticks(panel), format=panel.format, minExtent=44),
    )
    mark = (
        data.mark_bar(cornerRadiusEnd=1)
        if panel.kind == "bars"
        else data.mark_circle(size=64, opacity=1)
    )
    values = mark.encode(x=x, y=y, xOffset=offset, color=colour, description="description:N")
    whiskers = data.mark_rule(
        color=palette.ink if panel.kind == "bars" else palette.muted, strokeWidth=1.3
    ).encode(x=x, y=alt.Y("low:Q", title=panel.title), y2="high:Q", xOffset=offset)
    layers = [whiskers, values] if panel.kind != "bars" else [values, whiskers]
    if panel.line is not None:
        layers += _line(panel.line, palette)
    layered: AnyChart = alt.layer(*layers)
    return layered


def _scale(panel: Panel) -> alt.Scale:
    lows = [one.low for one in panel.estimates]
    highs = [one.high for one in panel.estimates] + ([panel.line.value] if panel.line else [])
    if panel.kind == "log dots":
        return alt.Scale(type="log", domain=_log_domain(panel), nice=False)
    if panel.kind == "bars":
        return alt.Scale(domain=[min(0.0, *lows), max(highs) * 1.04], nice=False)
    low = min([*lows, *([panel.line.value] if panel.line else [])])
    room = (max(highs) - low or 1.0) * 0.08
    return alt.Scale(domain=[low - room, max(highs) + room], nice=False, zero=False)


def _log_domain(panel: Panel) -> tuple[float, float]:
    rows = [_row(one, panel) for one in panel.estimates]
    levels = [panel.line.value] if panel.line else []
    low = min([*levels, *(row["low"] for row in rows)])
    return low / 1.15, max([*levels, *(row["high"] for row in rows)]) * 1.15


def _ticks(panel: Panel) -> dict[str, Any]:
    if panel.kind != "log dots":
        return {"tickCount": 5}
    low, high = _log_domain(panel)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if high / low < 1000 else (1,)
    return {"values": [s * 10.0**p for p in powers for s in steps if low <= s * 10.0**p <= high]}


def _line(line: Line, palette: Palette) -> list[alt.Chart]:
    data = alt.Chart(inline_data([{"mean": line.value, "words": line.words}]))
    rule = data.mark_rule(color=palette.warning, strokeDash=[5, 4], strokeWidth=1.2)
    words = data.mark_text(
        align="left", baseline="middle", dx=6, color=palette.warning, fontSize=LABEL_SIZE
    )
    return [
        rule.encode(y=alt.Y("mean:Q"), description="words:N"),
        words.encode(y=alt.Y("mean:Q"), x=alt.value("width"), text="words:N"),
    ]


def _row(one: Interval, panel: Panel) -> dict[str, Any]:
    words = f"{one.setting}, {one.series}: {one.mean:.4g} ({one.low:.4g} to {one.high:.4g})"
    return {
        "setting": one.setting,
        "series": one.series,
        "mean": one.mean,
        "low": max(one.low, one.mean / 10) if panel.kind == "log dots" else one.low,
        "high": one.high,
        "description": f"{panel.title}: {words}",
    }


def _colour(palette: Palette, index: int) -> str:
    colours = (*palette.nodes, palette.muted, palette.ink)
    return colours[index % len(colours)]


def _columns(series: Sequence[str], width: int) -> int:
    widest = _SYMBOL + CHARACTER_WIDTH * max(map(len, series))
    return max(1, min(len(series), int(width // widest)))
