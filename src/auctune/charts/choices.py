"""What several zones would take for one job, and by when."""

from collections.abc import Sequence
from dataclasses import dataclass

import altair as alt

from auctune.charts.menu import AXIS_WIDTH, wait_axis
from auctune.charts.palette import LIGHT, Palette
from auctune.charts.theme import AnyChart, apply_theme, inline_data

HEIGHT = 200


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
    """A named point a zone, cost over wait; the chosen one is full.

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
    chart = alt.layer(dots, *names).properties(width=width - AXIS_WIDTH, height=HEIGHT)
    return apply_theme(chart, palette)
