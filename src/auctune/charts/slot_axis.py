"""The axis of slots of plan and heat maps: slot t spans [t, t + 1), labelled at its middle."""

import altair as alt

LABEL_WIDTH = 30
STEPS = (1, 2, 3, 4, 6, 8, 12, 24, 36, 48, 72, 144)


def slot_axis(field: str, slots: int, width: int, *, title: str = "slot") -> alt.X:
    """Channel x for the begin of a span, in slots.

    Args:
        field: begin of the span; its end is another field, in channel x2.
        slots: of the horizon.
        width: pixels of the plot.
        title: under the axis.
    """
    step = label_step(slots, width)
    axis = alt.Axis(
        values=[slot + 0.5 for slot in range(0, slots, step)],
        labelExpr="floor(datum.value)",
        labelOverlap=False,
        labelFlush=False,
        grid=False,
        title=title,
    )
    scale = alt.Scale(domain=[0, slots], nice=False, zero=False)
    return alt.X(field, type="quantitative", scale=scale, axis=axis)


def label_step(slots: int, width: int) -> int:
    """Slots from one label to the next, so that labels do not touch."""
    fitting = max(1, width // LABEL_WIDTH)
    least = -(-slots // fitting)
    return next((step for step in STEPS if step >= least), least)
