"""Series of spot markets by slot, a panel each, on one scale so that they compare."""

from collections.abc import Mapping, Sequence

import altair as alt

from auctune.charts.palette import LIGHT, Palette
from auctune.charts.theme import AnyChart, apply_theme, inline_data

PANEL_HEIGHT = 64


def spot_series_chart(
    series: Mapping[str, Sequence[float]],
    slot_seconds: float,
    title: str,
    palette: Palette = LIGHT,
    *,
    width: int = 720,
    from_zero: bool = True,
) -> AnyChart:
    """Values by slot over days, one panel above the other.

    Args:
        series: by the panel's name, from its top to its bottom; one entry a slot.
        slot_seconds: length of a slot.
        title: of the values' axis, with the unit.
        palette: colours.
        width: pixels of a panel.
        from_zero: filled from 0 up; otherwise a line, on an axis that begins where they do.
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
                scale=alt.Scale(zero=from_zero),
                axis=alt.Axis(title=title, tickCount=3),
            ),
        )
        .properties(width=width, height=PANEL_HEIGHT)
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
