"""Lines over a common axis, in panels one above the other."""

from collections.abc import Sequence
from dataclasses import dataclass

import altair as alt

from auctune.charts.palette import LIGHT, Palette
from auctune.charts.theme import AnyChart, apply_theme, inline_data

PANEL_HEIGHT = 120
# A line of more points than this says no more.
MAX_POINTS = 600


@dataclass(frozen=True, slots=True)
class Curve:
    """A line.

    Attributes:
        name: in the legend; curves of a name have one colour in all panels.
        x, y: its points, as many of each, x rising.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]


@dataclass(frozen=True, slots=True)
class CurvePanel:
    """Lines that share an axis.

    Attributes:
        title: above the panel; empty: none.
        quantity: of the axis, with the unit.
        curves: the first one lies undermost.
        format: of the axis' numbers, as d3 has it.
    """

    title: str
    quantity: str
    curves: Sequence[Curve]
    format: str = "~g"


def curves_chart(
    panels: Sequence[CurvePanel],
    palette: Palette = LIGHT,
    *,
    x_title: str,
    width: int = 720,
    height: int = PANEL_HEIGHT,
    steps: bool = False,
) -> AnyChart:
    """Panels over one axis, with one legend.

    Args:
        panels: from the top down; no more names of curves than the palette tells apart.
        palette: colours.
        x_title: of the axis below, with the unit.
        width: pixels of a panel.
        height: of a panel.
        steps: a value holds until the next point.
    """
    names = list(dict.fromkeys(curve.name for panel in panels for curve in panel.curves))
    colours = (*palette.nodes, palette.muted, palette.ink)
    if not 1 <= len(names) <= len(colours):
        raise ValueError(f"{len(names)} names of curves; expected 1 to {len(colours)}")
    colour = alt.Color(
        "curve:N",
        scale=alt.Scale(domain=names, range=list(colours[: len(names)])),
        legend=alt.Legend(
            title=None, symbolType="stroke", symbolStrokeWidth=2.5, columns=3, labelLimit=260
        ),
    )
    ends = [x for panel in panels for curve in panel.curves for x in (curve.x[0], curve.x[-1])]
    scale = alt.Scale(domain=[min(ends), max(ends)], nice=False)
    drawn = []
    for index, panel in enumerate(panels):
        last = index == len(panels) - 1
        axis = alt.Axis(title=x_title if last else None, labels=last, grid=False, tickCount=8)
        lines = (
            alt.Chart(inline_data([row for curve in panel.curves for row in _points(curve)]))
            .mark_line(strokeWidth=1.6, interpolate="step-after" if steps else "linear")
            .encode(
                x=alt.X("x:Q", scale=scale, axis=axis),
                y=alt.Y(
                    "y:Q",
                    title=panel.quantity,
                    scale=alt.Scale(zero=False),
                    axis=alt.Axis(tickCount=4, format=panel.format, minExtent=40),
                ),
                color=colour,
            )
        )
        titled = lines.properties(title=panel.title) if panel.title else lines
        drawn.append(titled.properties(width=width, height=height))
    return apply_theme(alt.vconcat(*drawn, spacing=14), palette)


def _points(curve: Curve) -> list[dict[str, float | str]]:
    count = len(curve.x)
    kept = sorted({*range(0, count, -(-count // MAX_POINTS)), count - 1})
    return [{"curve": curve.name, "x": float(curve.x[i]), "y": float(curve.y[i])} for i in kept]
