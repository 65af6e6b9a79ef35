"""A menu of prices: what a job costs, by the time at which it is done."""

from collections.abc import Sequence
from dataclasses import dataclass

import altair as alt

from auctune.charts.palette import LIGHT, Palette
from auctune.charts.theme import AnyChart, apply_theme, inline_data

HEIGHT = 220
# Room of the axis of prices.
AXIS_WIDTH = 76
_UNITS = ((172_800.0, 86_400.0, "days"), (7200.0, 3600.0, "hours"), (180.0, 60.0, "minutes"))


@dataclass(frozen=True, slots=True)
class MenuPoint:
    """One line of a menu.

    Attributes:
        line: its number.
        seconds: from when it was asked for until it is done.
        price: money.
        label: the line in words.
    """

    line: int
    seconds: float
    price: float
    label: str


def menu_chart(
    points: Sequence[MenuPoint], palette: Palette = LIGHT, *, width: int = 1040
) -> AnyChart:
    """Prices falling as one waits; each point leads to `#line-N` of the page that it stands on.

    Args:
        points: earliest first; one at least.
        palette: colours.
        width: pixels of the whole chart.
    """
    if not points:
        raise ValueError("no line; expected one at least")
    x, scale = wait_axis([point.seconds for point in points], width)
    values = [
        {
            "wait": point.seconds / scale,
            "price": point.price,
            "description": point.label,
            "target": f"#line-{point.line}",
        }
        for point in points
    ]
    base = alt.Chart(inline_data(values)).encode(
        x=x,
        y=alt.Y(
            "price:Q",
            title="price",
            scale=alt.Scale(zero=True, nice=True),
            axis=alt.Axis(tickCount=4, minExtent=40),
        ),
    )
    steps = base.mark_line(color=palette.accent, strokeWidth=1.6, interpolate="step-after")
    dots = base.mark_point(
        filled=True,
        size=150,
        color=palette.accent,
        stroke=palette.surface,
        strokeWidth=2,
        opacity=1,
    ).encode(href="target:N", description="description:N")
    chart = alt.layer(steps, dots).properties(width=width - AXIS_WIDTH, height=HEIGHT)
    return apply_theme(chart, palette)


def wait_axis(seconds: Sequence[float], width: int) -> tuple[alt.X, float]:
    """The axis of `wait`, from now to the latest, and the seconds in its unit."""
    last = max(seconds)
    scale, unit = next(((s, name) for least, s, name in _UNITS if last >= least), (1.0, "seconds"))
    axis = alt.X(
        "wait:Q",
        title=f"{unit} from the quote until it is done",
        scale=alt.Scale(domain=[0, 1.04 * last / scale], nice=False),
        axis=alt.Axis(grid=False, tickCount=max(3, width // 120)),
    )
    return axis, scale
