"""Regret of a selector beside what bounds it."""

import math
from collections.abc import Sequence

import altair as alt

from auctune.charts.palette import LIGHT, Palette
from auctune.charts.theme import AnyChart, apply_theme, inline_data

HEIGHT = 200
MAX_POINTS = 400
_REGRET, _BOUND = "regret of the weighted mean", "bound"


def spot_regret_chart(
    regret: Sequence[float],
    bound: Sequence[float],
    palette: Palette = LIGHT,
    *,
    width: int = 720,
) -> AnyChart:
    """Lines of regret and its bound over jobs.

    Args:
        regret: after each job, in scaled utility.
        bound: after each job; not a number where none is stated.
        palette: colours.
        width: pixels of the plot.
    """
    if not len(regret):
        raise ValueError("no job; expected one at least")
    step = -(-len(regret) // MAX_POINTS)
    jobs = sorted({*range(0, len(regret), step), len(regret) - 1})
    values = [
        {"kind": kind, "jobs": job + 1, "regret": float(series[job])}
        for kind, series in ((_REGRET, regret), (_BOUND, bound))
        for job in jobs
        if math.isfinite(series[job])
    ]
    names = [_REGRET, _BOUND]
    lines = (
        alt.Chart(inline_data(values))
        .mark_line(strokeWidth=2)
        .encode(
            x=alt.X(
                "jobs:Q",
                title="jobs",
                scale=alt.Scale(domain=[1, max(2, len(regret))], nice=False),
                axis=alt.Axis(grid=False, tickMinStep=1, tickCount=8, format="d"),
            ),
            y=alt.Y("regret:Q", title="scaled utility", axis=alt.Axis(tickCount=5)),
            color=alt.Color(
                "kind:N",
                scale=alt.Scale(domain=names, range=[palette.accent, palette.warning]),
                legend=alt.Legend(
                    title=None, symbolType="stroke", symbolStrokeWidth=2.5, labelLimit=260
                ),
            ),
            strokeDash=alt.StrokeDash(
                "kind:N", scale=alt.Scale(domain=names, range=[[1, 0], [5, 4]]), legend=None
            ),
        )
    )
    return apply_theme(alt.layer(lines).properties(width=width, height=HEIGHT), palette)
