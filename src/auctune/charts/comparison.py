"""Mechanisms side by side on one market: what they gained, when, and how full they ran it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np
from numpy.typing import NDArray

from auctune.charts.theme import (
    CHARACTER_WIDTH,
    LABEL_SIZE,
    LIGHT,
    AnyChart,
    Palette,
    apply_theme,
    inline_data,
)

Floats = NDArray[np.float64]

MAX_POINTS = 480
BAR_STEP = 34
LINE_HEIGHT = 150
LEGEND_SYMBOL = 28
PLAIN_ZERO = "datum.value == 0 ? '0' : datum.label"


@dataclass(frozen=True, slots=True, eq=False)
class EntryOutcome:
    """One mechanism's run.

    Attributes:
        name: unique among those compared.
        welfare: money.
        gained: [slots] welfare of the tasks that arrived in each slot.
        compute, memory: [slots] shares sold.
    """

    name: str
    welfare: float
    gained: Floats
    compute: Floats
    memory: Floats


@dataclass(frozen=True, slots=True)
class BoundLine:
    """An upper bound on welfare, and in words which one."""

    value: float
    words: str


def welfare_chart(
    entries: Sequence[EntryOutcome],
    bound: BoundLine | None = None,
    palette: Palette = LIGHT,
    *,
    width: int = 720,
) -> AnyChart:
    """Return a bar of welfare for each mechanism, and a line for the bound that none can pass.

    Args:
        entries: in the order of the bars.
        bound: drawn where there is one.
        palette: colours.
        width: pixels of the whole chart.
    """
    names = [one.name for one in entries]
    most = max([one.welfare for one in entries] + ([bound.value] if bound else []))
    least = min(0.0, *(one.welfare for one in entries))
    room = int(min(0.4 * width, CHARACTER_WIDTH * max(map(len, names)) + 12))
    plot = width - room - 24
    y = alt.Y("name:N", sort=names, title=None, axis=alt.Axis(labelLimit=room))
    x = alt.X(
        "welfare:Q",
        title="welfare, money",
        scale=alt.Scale(domain=[least, most or 1.0], nice=False),
        axis=alt.Axis(tickCount=max(2, plot // 110), format="~s", labelExpr=PLAIN_ZERO),
    )
    data = inline_data([_bar(one, bound) for one in entries])
    bars = alt.Chart(data).mark_bar(color=palette.accent, height=18, cornerRadiusEnd=2)
    # Words stand inside a long bar and beside a short one.
    inside = f"datum.welfare > {most} * 0.4"
    words = alt.Chart(data).mark_text(fontSize=LABEL_SIZE, baseline="middle", dx=6, align="left")
    layers: list[alt.Chart] = [
        bars.encode(x=x, y=y, description="description:N"),
        words.transform_filter(f"!({inside})").encode(
            x=x, y=y, text="label:N", color=alt.value(palette.ink)
        ),
        alt.Chart(data)
        .mark_text(fontSize=LABEL_SIZE, baseline="middle", dx=-6, align="right")
        .transform_filter(inside)
        .encode(x=x, y=y, text="label:N", color=alt.value(palette.surface)),
    ]
    if bound is not None:
        layers += _bound_line(bound, palette)
    chart = alt.layer(*layers).properties(width=plot, height=BAR_STEP * len(names))
    return apply_theme(chart, palette)


def cumulative_chart(
    entries: Sequence[EntryOutcome],
    bound: BoundLine | None = None,
    palette: Palette = LIGHT,
    *,
    width: int = 720,
) -> AnyChart:
    """Welfare gained up to each slot, a line for each mechanism.

    Args:
        entries: in the order of the legend.
        bound: on the sum over all slots; drawn where there is one.
        palette: colours.
        width: pixels of the whole chart.
    """
    values = [
        {"name": one.name, "slot": slot, "value": value}
        for one in entries
        for slot, value in _thinned(np.cumsum(one.gained), last=True)
    ]
    y = alt.Y(
        "value:Q",
        title="welfare up to here",
        axis=alt.Axis(tickCount=5, format="~s", labelExpr=PLAIN_ZERO, minExtent=44),
    )
    lines = _lines(values, entries, y, palette, width).properties(
        width=width - 80, height=2 * LINE_HEIGHT
    )
    if bound is None:
        return apply_theme(alt.layer(lines), palette)
    rule = alt.Chart(inline_data([{"value": bound.value, "words": _bound_words(bound)}]))
    level = rule.mark_rule(color=palette.warning, strokeDash=[5, 4], strokeWidth=1.4).encode(y=y)
    words = rule.mark_text(
        align="left", baseline="bottom", dx=4, dy=-4, color=palette.warning, fontSize=LABEL_SIZE
    ).encode(y=y, x=alt.value(0), text="words:N")
    return apply_theme(alt.layer(lines, level, words), palette)


def use_chart(
    entries: Sequence[EntryOutcome], palette: Palette = LIGHT, *, width: int = 720
) -> AnyChart:
    """Shares of compute and of memory sold in each slot, a line for each mechanism.

    Args:
        entries: in the order of the legend.
        palette: colours.
        width: pixels of the whole chart.
    """
    values = [
        {"name": one.name, "what": f"{resource} sold", "slot": slot, "value": share}
        for one in entries
        for resource, shares in (("compute", one.compute), ("memory", one.memory))
        for slot, share in _thinned(shares, last=False)
    ]
    y = alt.Y(
        "value:Q",
        title=None,
        scale=alt.Scale(domain=[0, 1]),
        axis=alt.Axis(values=[0, 0.25, 0.5, 0.75, 1], format=".0%", minExtent=44),
    )
    lines = _lines(values, entries, y, palette, width)
    panels = lines.properties(width=width - 60, height=LINE_HEIGHT).facet(
        facet=alt.Facet("what:N", sort=["compute sold", "memory sold"], title=None),
        columns=1,
        spacing=22,
    )
    return apply_theme(panels, palette)


def _bar(one: EntryOutcome, bound: BoundLine | None) -> dict[str, Any]:
    share = f", {one.welfare / bound.value:.1%}" if bound is not None and bound.value > 0 else ""
    of_bound = f"{share} of the {bound.words}" if share and bound is not None else ""
    return {
        "name": one.name,
        "welfare": one.welfare,
        "label": f"{one.welfare:,.0f}{share}",
        "description": f"{one.name}: welfare {one.welfare:,.2f}{of_bound}",
    }


def _bound_words(bound: BoundLine) -> str:
    return f"{bound.words}: {bound.value:,.0f}"


def _bound_line(bound: BoundLine, palette: Palette) -> list[alt.Chart]:
    data = inline_data([{"welfare": bound.value, "words": _bound_words(bound)}])
    x = alt.X("welfare:Q")
    rule = alt.Chart(data).mark_rule(color=palette.warning, strokeDash=[5, 4], strokeWidth=1.4)
    words = alt.Chart(data).mark_text(
        align="right", baseline="bottom", dx=0, dy=-5, color=palette.warning, fontSize=LABEL_SIZE
    )
    return [
        rule.encode(x=x, description="words:N"),
        words.encode(x=x, y=alt.value(0), text="words:N"),
    ]


def _lines(
    values: list[dict[str, Any]],
    entries: Sequence[EntryOutcome],
    y: alt.Y,
    palette: Palette,
    width: int,
) -> alt.Chart:
    names = [one.name for one in entries]
    colours = [palette.nodes[index % len(palette.nodes)] for index in range(len(names))]
    dashes = [[1, 0] if index < len(palette.nodes) else [5, 3] for index in range(len(names))]
    legend = alt.Legend(
        title=None,
        columns=_legend_columns(names, width),
        symbolType="stroke",
        symbolStrokeWidth=2.5,
        labelLimit=260,
    )
    last = max((value["slot"] for value in values), default=1)
    lines: alt.Chart = (
        alt.Chart(inline_data(values))
        .mark_line(strokeWidth=1.8, interpolate="step-after")
        .encode(
            x=alt.X(
                "slot:Q",
                title="slot",
                scale=alt.Scale(domain=[0, last], nice=False),
                axis=alt.Axis(tickCount=max(2, width // 90), format="d", grid=False),
            ),
            y=y,
            color=alt.Color("name:N", scale=alt.Scale(domain=names, range=colours), legend=legend),
            strokeDash=alt.StrokeDash(
                "name:N", scale=alt.Scale(domain=names, range=dashes), legend=None
            ),
        )
    )
    return lines


def _legend_columns(names: Sequence[str], width: int) -> int:
    widest = LEGEND_SYMBOL + CHARACTER_WIDTH * max(map(len, names), default=1)
    return max(1, min(len(names), int(width // widest)))


def _thinned(by_slot: Floats, *, last: bool) -> list[tuple[int, float]]:
    """(slot, value) of at most `MAX_POINTS` runs of slots: their last values, or their means."""
    step = math.ceil(len(by_slot) / MAX_POINTS)
    runs = [by_slot[start : start + step] for start in range(0, len(by_slot), step)]
    values = [float(run[-1] if last else run.mean()) for run in runs]
    # A step line ends where its last value begins: that one is drawn to the end of its run.
    return [
        *((index * step, value) for index, value in enumerate(values)),
        (len(by_slot), values[-1]),
    ]
