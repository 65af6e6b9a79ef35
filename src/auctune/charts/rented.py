"""A spot market and what is held of it, slot by slot."""

from collections.abc import Sequence
from dataclasses import dataclass

import altair as alt

from auctune.charts.palette import LIGHT, Palette
from auctune.charts.slot_axis import slot_axis
from auctune.charts.stacked import StackedSlot, stacked_panel
from auctune.charts.theme import AnyChart, apply_theme, inline_data

PRICE_HEIGHT = 90
THERE_HEIGHT = 70


@dataclass(frozen=True, slots=True)
class RentedSlot:
    """One slot.

    Attributes:
        slot: from 0 on.
        price: of a spot instance.
        available: spot instances that there were.
        on_demand, spot: instances held.
    """

    slot: int
    price: float
    available: int
    on_demand: int
    spot: int


def rented_chart(
    slots: Sequence[RentedSlot],
    on_demand_price: float,
    palette: Palette = LIGHT,
    *,
    width: int = 1040,
) -> AnyChart:
    """Three panels: the price, with that on demand dashed; how many there are; how many are held.

    Args:
        slots: in their order; one at least.
        on_demand_price: of an instance on demand for a slot.
        palette: colours.
        width: pixels of the panels.
    """
    if not slots:
        raise ValueError("no slot to draw; expected one at least")
    num_slots = slots[-1].slot + 1
    held = [StackedSlot(one.slot, {"on demand": one.on_demand, "spot": one.spot}) for one in slots]
    prices = [(one.slot, one.price) for one in slots]
    there = [(one.slot, float(one.available)) for one in slots]
    price = _steps(prices, "spot price", palette, num_slots, width, PRICE_HEIGHT)
    rule = (
        alt.Chart(inline_data([{"value": on_demand_price}]))
        .mark_rule(color=palette.warning, strokeWidth=1.6, strokeDash=[5, 4])
        .encode(y="value:Q")
    )
    panels = alt.vconcat(
        alt.layer(price, rule).properties(width=width, height=PRICE_HEIGHT),
        _steps(there, "spot available", palette, num_slots, width, THERE_HEIGHT),
        stacked_panel(held, palette, width, y_title="held"),
        spacing=16,
    )
    return apply_theme(panels, palette)


def _steps(
    values: Sequence[tuple[int, float]],
    title: str,
    palette: Palette,
    num_slots: int,
    width: int,
    height: int,
) -> AnyChart:
    rows = [
        {
            "slot": slot,
            "end": slot + 1,
            "value": value,
            "description": f"slot {slot}: {title} {value:g}",
        }
        for slot, value in values
    ]
    y = alt.Y("value:Q", title=title, scale=alt.Scale(zero=True), axis=alt.Axis(tickCount=3))
    x = slot_axis("slot", num_slots, width, title="")
    rule = alt.Chart(inline_data(rows)).mark_rule(color=palette.accent, strokeWidth=2.5)
    drawn: AnyChart = rule.encode(x=x, x2="end:Q", y=y, description="description:N")
    return drawn.properties(width=width, height=height)
