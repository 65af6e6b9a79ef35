"""How many bids arrive in each slot, a panel a source, on one scale so that they compare."""

from collections.abc import Mapping, Sequence

import altair as alt

from auctune.charts.palette import LIGHT, Palette
from auctune.charts.theme import AnyChart, apply_theme, inline_data

PANEL_HEIGHT = 84


def arrivals_chart(
    counts: Mapping[str, Sequence[int]],
    slot_seconds: float,
    palette: Palette = LIGHT,
    *,
    width: int = 720,
) -> AnyChart:
    """Counts by slot over days, one panel above the other.

    Args:
        counts: by the panel's name, from its top to its bottom; one entry a slot.
        slot_seconds: length of a slot.
        palette: colours.
        width: pixels of a panel.
    """
    if not any(counts.values()):
        raise ValueError("no source has a slot; expected one at least")
    values = [
        {"source": name, "day": slot * slot_seconds / 86_400, "bids": int(count)}
        for name, by_slot in counts.items()
        for slot, count in enumerate(by_slot)
    ]
    days = max(len(by_slot) for by_slot in counts.values()) * slot_seconds / 86_400
    x = alt.X(
        "day:Q",
        scale=alt.Scale(domain=[0, days], nice=False),
        axis=alt.Axis(title="days", grid=False, tickMinStep=1, format="d"),
    )
    y = alt.Y(
        "bids:Q",
        # The root shows quiet slots beside bursts of hundreds.
        scale=alt.Scale(type="sqrt", nice=True, zero=True),
        axis=alt.Axis(title="bids a slot", tickCount=4),
    )
    panels = (
        alt.Chart(inline_data(values))
        .mark_area(color=palette.accent, line=False, interpolate="step-after")
        .encode(x=x, y=y)
        .properties(width=width, height=PANEL_HEIGHT)
        .facet(
            row=alt.Row(
                "source:N",
                sort=list(counts),
                title=None,
                header=alt.Header(labelAngle=0, labelOrient="top"),
            ),
            spacing=10,
        )
    )
    return apply_theme(panels, palette)
