"""How a time grows with the size of a market, beside growth in proportion to it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from auctune.charts.palette import LIGHT, Palette
from auctune.charts.theme import AnyChart, apply_theme, inline_data

PANEL_HEIGHT = 240
# A logarithmic axis would draw a line for each step of a decade.
_TICKS = [digit * 10**power for power in range(-1, 7) for digit in (1, 2, 5)]
_MEASURED = "measured"
_LINEAR = "in proportion"


@dataclass(frozen=True, slots=True)
class Growth:
    """One panel: a time at some sizes.

    Attributes:
        what: the size, as the panel's heading says it.
        sizes: > 0, rising.
        seconds: > 0, one a size.
    """

    what: str
    sizes: Sequence[float]
    seconds: Sequence[float]


def growth_chart(
    panels: Sequence[Growth], palette: Palette = LIGHT, *, width: int = 720
) -> AnyChart:
    """Times in microseconds by size, on logarithmic axes, a panel for each kind of size.

    A dashed line starts with the first point of a panel and grows as the size does: what lies
    below it grows more slowly.

    Args:
        panels: side by side.
        palette: colours.
        width: pixels of the whole chart.
    """
    if not any(panel.sizes for panel in panels):
        raise ValueError("no panel has a size; expected one at least")
    values = [row for panel in panels for row in _rows(panel)]
    x = alt.X(
        "size:Q",
        title=None,
        scale=alt.Scale(type="log", nice=False, padding=14),
        axis=alt.Axis(grid=False, values=_TICKS, format="~f"),
    )
    y = alt.Y(
        "micros:Q",
        title="time to decide a bid, µs",
        scale=alt.Scale(type="log"),
        axis=alt.Axis(values=_TICKS, format="~f"),
    )
    names = [_MEASURED, _LINEAR]
    kind = alt.Color(
        "kind:N",
        scale=alt.Scale(domain=names, range=[palette.accent, palette.muted]),
        legend=alt.Legend(title=None, symbolType="stroke", symbolStrokeWidth=2.5),
    )
    dash = alt.StrokeDash("kind:N", scale=alt.Scale(domain=names, range=[[1, 0], [4, 4]]))
    base = alt.Chart(inline_data(values)).encode(x=x, y=y)
    lines = base.mark_line(strokeWidth=2).encode(color=kind, strokeDash=dash)
    points = (
        base.transform_filter(alt.datum.kind == _MEASURED)
        .mark_circle(size=55, color=palette.accent, opacity=1)
        .encode(description="description:N")
    )
    panel_width = max(120, (width - 90) // len(panels) - 30)
    chart = alt.layer(lines, points).properties(width=panel_width, height=PANEL_HEIGHT)
    faceted = chart.facet(
        column=alt.Column("what:N", title=None, sort=[panel.what for panel in panels]), spacing=30
    ).resolve_scale(x="independent")
    return apply_theme(faceted, palette)


def _rows(panel: Growth) -> list[dict[str, Any]]:
    rows = []
    for size, seconds in zip(panel.sizes, panel.seconds, strict=True):
        linear = panel.seconds[0] * size / panel.sizes[0]
        for kind, value in ((_MEASURED, seconds), (_LINEAR, linear)):
            micros = value * 1e6
            words = f"{panel.what} {size:g}: {micros:.1f} µs"
            rows.append(
                {
                    "what": panel.what,
                    "size": size,
                    "kind": kind,
                    "micros": micros,
                    "description": words,
                }
            )
    return rows
