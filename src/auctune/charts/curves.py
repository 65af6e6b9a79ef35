"""Lines over a common axis, in panels one above the other, and the growth of a time with a size."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from auctune.charts.comparison import Floats
from auctune.charts.theme import LIGHT, AnyChart, Palette, apply_theme, inline_data

PANEL_HEIGHT = 120
SERIES_HEIGHT = 64
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
        from_zero: whether the axis begins at 0.
    """

    title: str
    quantity: str
    curves: Sequence[Curve]
    format: str = "~g"
    from_zero: bool = False


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
                    scale=alt.Scale(zero=panel.from_zero),
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


def series_chart(
    series: Mapping[str, Sequence[float]],
    slot_seconds: float,
    title: str,
    palette: Palette = LIGHT,
    *,
    width: int = 720,
    from_zero: bool = True,
    square_root: bool = False,
) -> AnyChart:
    """Draw values by slot over days, one panel above the other on one scale.

    Args:
        series: by the panel's name, from its top to its bottom; one entry a slot.
        slot_seconds: length of a slot.
        title: of the values' axis, with the unit.
        palette: colours.
        width: pixels of a panel.
        from_zero: filled from 0 up; otherwise a line, on an axis that begins where they do.
        square_root: the axis shows quiet slots beside bursts of hundreds.
    """
    if not any(len(by_slot) for by_slot in series.values()):
        raise ValueError("no series has a slot; expected one at least")
    values = [
        {"series": name, "day": slot * slot_seconds / 86_400, "value": float(value)}
        for name, by_slot in series.items()
        for slot, value in enumerate(by_slot)
    ]
    days = max(map(len, series.values())) * slot_seconds / 86_400
    chart = alt.Chart(inline_data(values))
    mark = (
        chart.mark_area(color=palette.accent, line=False, interpolate="step-after")
        if from_zero
        else chart.mark_line(color=palette.accent, strokeWidth=1.5, interpolate="step-after")
    )
    panels = (
        mark.encode(
            x=alt.X(
                "day:Q",
                scale=alt.Scale(domain=[0, days], nice=False),
                axis=alt.Axis(title="days", grid=False, tickMinStep=1, format="d"),
            ),
            y=alt.Y(
                "value:Q",
                scale=alt.Scale(type="sqrt" if square_root else "linear", zero=from_zero),
                axis=alt.Axis(title=title, tickCount=3),
            ),
        )
        .properties(width=width, height=SERIES_HEIGHT)
        .facet(
            row=alt.Row(
                "series:N",
                sort=list(series),
                title=None,
                header=alt.Header(labelAngle=0, labelOrient="top"),
            ),
            spacing=10,
        )
    )
    return apply_theme(panels, palette)


EDGE_USE_HEIGHT = 200


def edge_use_chart(
    use: Mapping[str, Floats], palette: Palette = LIGHT, *, width: int = 720
) -> AnyChart:
    """Return a step line a resource.

    Args:
        use: [slots] shares sold, by resource, in the order of the legend; at least one.
        palette: colours.
        width: pixels of the whole chart.
    """
    if not use:
        raise ValueError("nothing to draw; expected one resource at least")
    names = list(use)
    num_slots = len(next(iter(use.values())))
    values = [
        {"what": name, "slot": slot, "share": float(share)}
        for name, by_slot in use.items()
        # A step line ends where its last value begins: that one is drawn to the end of its slot.
        for slot, share in enumerate([*by_slot, by_slot[-1]])
    ]
    colours = [(*palette.nodes, palette.muted)[index % 7] for index in range(len(names))]
    lines = (
        alt.Chart(inline_data(values))
        .mark_line(strokeWidth=1.8, interpolate="step-after")
        .encode(
            x=alt.X(
                "slot:Q",
                title="slot",
                scale=alt.Scale(domain=[0, num_slots], nice=False),
                axis=alt.Axis(tickCount=max(2, width // 90), format="d", grid=False),
            ),
            y=alt.Y(
                "share:Q",
                title="share sold",
                scale=alt.Scale(domain=[0, 1]),
                axis=alt.Axis(values=[0, 0.25, 0.5, 0.75, 1], format=".0%", minExtent=44),
            ),
            color=alt.Color(
                "what:N",
                scale=alt.Scale(domain=names, range=colours),
                legend=alt.Legend(title=None, symbolType="stroke", symbolStrokeWidth=2.5),
            ),
        )
        .properties(width=width - 80, height=EDGE_USE_HEIGHT)
    )
    return apply_theme(alt.layer(lines), palette)


_GROWTH_HEIGHT = 240
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
    values = [row for panel in panels for row in _growth_rows(panel)]
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
    chart = alt.layer(lines, points).properties(width=panel_width, height=_GROWTH_HEIGHT)
    faceted = chart.facet(
        column=alt.Column("what:N", title=None, sort=[panel.what for panel in panels]), spacing=30
    ).resolve_scale(x="independent")
    return apply_theme(faceted, palette)


def _growth_rows(panel: Growth) -> list[dict[str, Any]]:
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
