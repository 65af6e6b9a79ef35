"""What of an edge market is sold, slot by slot: a line for each resource type, and for traffic."""

from collections.abc import Mapping

import altair as alt

from auctune.charts.comparison import Floats
from auctune.charts.palette import LIGHT, Palette
from auctune.charts.theme import AnyChart, apply_theme, inline_data

HEIGHT = 200


def edge_use_chart(
    use: Mapping[str, Floats], palette: Palette = LIGHT, *, width: int = 720
) -> AnyChart:
    """A step line a resource.

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
        .properties(width=width - 80, height=HEIGHT)
    )
    return apply_theme(alt.layer(lines), palette)
