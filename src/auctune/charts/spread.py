"""What is likely, what is kept in nine of ten cases, and the limit: a bar for each quantity."""

from collections.abc import Sequence
from dataclasses import dataclass

import altair as alt

from auctune.charts.palette import LIGHT, Palette
from auctune.charts.theme import AnyChart, apply_theme, inline_data

HEIGHT = 34


@dataclass(frozen=True, slots=True)
class Spread:
    """One quantity.

    Attributes:
        title: with its unit.
        expected, p90: likely, and kept with a probability of 0.9.
        limit: that its owner sets; none: there is none.
        limit_name: what the limit is called.
    """

    title: str
    expected: float
    p90: float
    limit: float | None = None
    limit_name: str = ""


def spread_chart(
    spreads: Sequence[Spread], palette: Palette = LIGHT, *, width: int = 1040
) -> AnyChart:
    """A bar a quantity: full up to what is expected, pale up to p90, the limit as a dashed line.

    Args:
        spreads: from the top down; one at least.
        palette: colours.
        width: pixels of a panel.
    """
    if not spreads:
        raise ValueError("no quantity to draw; expected one at least")
    panels = [_panel(one, palette, width) for one in spreads]
    return apply_theme(alt.vconcat(*panels, spacing=18), palette)


def _panel(one: Spread, palette: Palette, width: int) -> AnyChart:
    most = max(one.expected, one.p90, one.limit or 0.0) or 1.0
    x = alt.X(
        "high:Q",
        title=one.title,
        scale=alt.Scale(domain=[0, 1.06 * most], nice=False),
        axis=alt.Axis(tickCount=max(3, width // 130), grid=False),
    )
    parts = []
    for name, value, size, colour in (
        ("in 9 of 10 cases at most", one.p90, 22, palette.pending),
        ("expected", one.expected, 12, palette.accent),
    ):
        rows = [{"high": value, "zero": 0, "description": f"{one.title} {name}: {value:,.4g}"}]
        bar = alt.Chart(inline_data(rows)).mark_bar(size=size, color=colour)
        parts.append(
            bar.encode(x=x, x2="zero:Q", y=alt.value(HEIGHT / 2), description="description:N")
        )
    if one.limit is not None:
        rows = [{"high": one.limit, "description": f"{one.limit_name}: {one.limit:,.4g}"}]
        there = alt.Chart(inline_data(rows))
        line = there.mark_rule(color=palette.warning, strokeWidth=1.8, strokeDash=[5, 4])
        parts.append(line.encode(x="high:Q", description="description:N"))
        words = there.mark_text(
            align="right", baseline="bottom", dx=-4, color=palette.warning, text=one.limit_name
        )
        parts.append(words.encode(x="high:Q", y=alt.value(-2)))
    return alt.layer(*parts).properties(width=width, height=HEIGHT)
