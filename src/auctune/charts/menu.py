"""Charts of offers: the price of each finish time, and policies by cost and finish."""

from collections.abc import Sequence
from dataclasses import dataclass

import altair as alt

from auctune.charts.theme import LIGHT, AnyChart, Palette, apply_theme, inline_data

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
    """Return the axis of `wait`, from now to the latest, and the seconds in its unit."""
    last = max(seconds)
    scale, unit = next(((s, name) for least, s, name in _UNITS if last >= least), (1.0, "seconds"))
    axis = alt.X(
        "wait:Q",
        title=f"{unit} from the quote until it is done",
        scale=alt.Scale(domain=[0, 1.04 * last / scale], nice=False),
        axis=alt.Axis(grid=False, tickCount=max(3, width // 120)),
    )
    return axis, scale


CHOICES_HEIGHT = 200


@dataclass(frozen=True, slots=True)
class ChoicePoint:
    """One zone.

    Attributes:
        name: of the zone.
        seconds: from when it was asked until the job is done.
        cost: money.
        is_chosen: whether it is the one that is shown.
        label: all of it in words.
    """

    name: str
    seconds: float
    cost: float
    is_chosen: bool
    label: str


def choices_chart(
    points: Sequence[ChoicePoint], palette: Palette = LIGHT, *, width: int = 1040
) -> AnyChart:
    """Return a named point a zone, cost over wait; the chosen one is full.

    Args:
        points: one at least.
        palette: colours.
        width: pixels of the whole chart.
    """
    if not points:
        raise ValueError("no zone; expected one at least")
    x, scale = wait_axis([point.seconds for point in points], width)
    rows = [
        {
            "wait": point.seconds / scale,
            "cost": point.cost,
            "name": point.name,
            "chosen": point.is_chosen,
            "description": point.label,
        }
        for point in points
    ]
    top = 1.15 * max(point.cost for point in points) or 1.0
    y = alt.Y(
        "cost:Q",
        title="cost, at most in 9 of 10",
        scale=alt.Scale(domain=[0, top]),
        axis=alt.Axis(tickCount=4, minExtent=40),
    )
    base = alt.Chart(inline_data(rows)).encode(x=x, y=y)
    fill = alt.when("datum.chosen").then(alt.value(palette.accent))
    dots = base.mark_point(
        filled=False, size=150, stroke=palette.accent, strokeWidth=2, opacity=1
    ).encode(fill=fill.otherwise(alt.value(palette.surface)), description="description:N")
    # A name at the right edge stands to the left of its point.
    edge = 0.75 * max(point.seconds / scale for point in points)
    early = base.transform_filter(f"datum.wait <= {edge}")
    late = base.transform_filter(f"datum.wait > {edge}")
    names = (
        early.mark_text(align="left", dx=12, color=palette.ink).encode(text="name:N"),
        late.mark_text(align="right", dx=-12, color=palette.ink).encode(text="name:N"),
    )
    chart = alt.layer(dots, *names).properties(width=width - AXIS_WIDTH, height=CHOICES_HEIGHT)
    return apply_theme(chart, palette)
