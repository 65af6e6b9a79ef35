"""A job that is charged as it goes: its cost so far against its cap, and what it had."""

from collections.abc import Sequence

import altair as alt

from auctune.charts.palette import LIGHT, Palette
from auctune.charts.slot_axis import slot_axis
from auctune.charts.stacked import StackedSlot, stacked_panel
from auctune.charts.theme import AnyChart, apply_theme, inline_data

COST_HEIGHT = 110


def metered_chart(
    costs: Sequence[tuple[int, float]],
    cap: float,
    had: Sequence[StackedSlot],
    palette: Palette = LIGHT,
    *,
    had_title: str,
    is_share: bool,
    width: int = 1040,
) -> AnyChart:
    """Two panels over slots from 0 on: the cost so far, with the cap dashed; what the job had.

    Args:
        costs: slot, and the cost of all slots up to it.
        cap: the most that is charged.
        had: of each slot; nothing: the second panel is left out.
        palette: colours.
        had_title: of the second panel's axis.
        is_share: what it had is a share of 1.
        width: pixels of the panels.
    """
    if not costs:
        raise ValueError("no slot to draw; expected one at least")
    num_slots = max(slot for slot, _ in costs) + 1
    has_more = any(one.amounts for one in had)
    cost = _cost(costs, cap, num_slots, palette, width, title="" if has_more else "slot")
    if not has_more:
        return apply_theme(cost, palette)
    below = stacked_panel(had, palette, width, y_title=had_title, is_share=is_share)
    return apply_theme(alt.vconcat(cost, below, spacing=16), palette)


def _cost(
    costs: Sequence[tuple[int, float]],
    cap: float,
    num_slots: int,
    palette: Palette,
    width: int,
    *,
    title: str,
) -> AnyChart:
    rows = [
        {
            "from": slot,
            "to": slot + 1,
            "cost": cost,
            "description": f"slot {slot}: {cost:.4f} so far",
        }
        for slot, cost in costs
    ]
    y = alt.Y("cost:Q", title="cost so far", scale=alt.Scale(zero=True), axis=alt.Axis(tickCount=3))
    x = slot_axis("from", num_slots, width, title=title)
    steps = alt.Chart(inline_data(rows)).mark_rect(color=palette.accent, opacity=0.85)
    drawn = steps.transform_calculate(zero="0").encode(
        x=x, x2="to:Q", y=y, y2="zero:Q", description="description:N"
    )
    limit = alt.Chart(inline_data([{"cost": cap, "description": f"cap {cap:.4f}"}]))
    rule = limit.mark_rule(color=palette.warning, strokeWidth=1.6, strokeDash=[5, 4])
    words = limit.mark_text(
        align="right", baseline="top", dy=3, color=palette.warning, text=f"cap {cap:,.2f}"
    )
    return alt.layer(
        drawn,
        rule.encode(y=alt.Y("cost:Q"), description="description:N"),
        words.encode(x=alt.value(width), y=alt.Y("cost:Q")),
    ).properties(width=width, height=COST_HEIGHT)
