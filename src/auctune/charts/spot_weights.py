"""How the weights of policies change while jobs come."""

from collections.abc import Mapping, Sequence

import altair as alt

from auctune.charts.palette import LIGHT, Palette
from auctune.charts.theme import AnyChart, apply_theme, inline_data

HEIGHT = 220
# A line of more points than this says no more.
MAX_POINTS = 400


def spot_weights_chart(
    weights: Mapping[str, Sequence[float]], palette: Palette = LIGHT, *, width: int = 720
) -> AnyChart:
    """A line of weight over jobs for each policy.

    Args:
        weights: by the policy's name, before each job and after the last; as many policies at most
            as the palette tells apart.
        palette: colours.
        width: pixels of the plot.
    """
    if not weights or len(weights) > len(palette.nodes):
        raise ValueError(f"{len(weights)} policies; expected 1 to {len(palette.nodes)}")
    names = list(weights)
    longest = max(map(len, weights.values()))
    step = -(-longest // MAX_POINTS)
    values = [
        {"policy": name, "job": job, "weight": float(by_job[job])}
        for name, by_job in weights.items()
        for job in sorted({*range(0, len(by_job), step), len(by_job) - 1})
    ]
    colours = alt.Scale(domain=names, range=list(palette.nodes[: len(names)]))
    legend = alt.Legend(title=None, symbolType="stroke", symbolStrokeWidth=2.5, columns=3,
                        labelLimit=260)  # fmt: skip
    lines = (
        alt.Chart(inline_data(values))
        .mark_line(strokeWidth=2)
        .encode(
            x=alt.X(
                "job:Q",
                title="jobs before",
                scale=alt.Scale(domain=[0, longest - 1], nice=False),
                axis=alt.Axis(grid=False, tickMinStep=1, tickCount=8, format="d"),
            ),
            y=alt.Y("weight:Q", title="weight", scale=alt.Scale(zero=True)),
            color=alt.Color("policy:N", scale=colours, legend=legend),
        )
    )
    return apply_theme(alt.layer(lines).properties(width=width, height=HEIGHT), palette)
