"""Charts of metered jobs: amounts stacked by slot, costs, rented instances, and likely ranges."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import altair as alt

from auctune.charts.theme import (
    LIGHT,
    AnyChart,
    Palette,
    SlotTimes,
    apply_theme,
    inline_data,
    legend_columns,
    slot_axis,
    slot_name,
)

HEIGHT = 150
OTHERS = "others"
"""Name of all things together for which there is no colour of their own."""


@dataclass(frozen=True, slots=True)
class StackedSlot:
    """One slot.

    Attributes:
        slot: from 0 on.
        amounts: >= 0, by the name of a thing.
    """

    slot: int
    amounts: Mapping[str, float]


def stacked_chart(
    slots: Sequence[StackedSlot],
    palette: Palette = LIGHT,
    *,
    y_title: str,
    unit: str = "slot",
    is_share: bool = False,
    width: int = 1040,
    times: SlotTimes | None = None,
) -> AnyChart:
    """Bars over slots, the first thing undermost.

    Args:
        slots: in their order; one at least with an amount.
        palette: colours.
        y_title: of the axis of amounts.
        unit: what the axis of slots counts.
        is_share: amounts are shares of 1.
        width: pixels of a panel.
        times: when slots begin; else they are numbered.
    """
    panel = stacked_panel(
        slots, palette, width, y_title=y_title, unit=unit, is_share=is_share, times=times
    )
    return apply_theme(panel, palette)


def stacked_panel(
    slots: Sequence[StackedSlot],
    palette: Palette,
    width: int,
    *,
    y_title: str,
    unit: str = "slot",
    is_share: bool = False,
    times: SlotTimes | None = None,
) -> AnyChart:
    """Return the same as a part of a chart."""
    names = list(dict.fromkeys(name for one in slots for name in one.amounts))
    if not names:
        raise ValueError("no amount to draw; expected one at least")
    shown = _with_colours(names, len(palette.nodes))
    bars = [bar for one in slots for bar in _bars(one, shown, times, is_share=is_share)]
    kinds = list(dict.fromkeys(shown.values()))
    colours = [*palette.nodes[: len(kinds)], palette.muted][: len(kinds)]
    # A share of one thing alone is what the axis says.
    is_plain = is_share and len(kinds) == 1
    legend = None if is_plain else alt.Legend(title=None, columns=legend_columns(width))
    scale = alt.Scale(domain=kinds, range=colours)
    colour = alt.Color("kind:N", scale=scale, legend=legend)
    most = max(sum(one.amounts.values()) for one in slots)
    axis = (
        alt.Axis(tickCount=4, format="%")
        if is_share
        else alt.Axis(values=_counts(most), format="d")
    )
    num_slots = max(one.slot for one in slots) + 1
    drawn = (
        alt.Chart(inline_data(bars))
        .mark_rect()
        .encode(
            x=slot_axis("from", num_slots, width, title=unit, times=times),
            x2="to:Q",
            y=alt.Y("low:Q", title=y_title, axis=axis, scale=alt.Scale(zero=True)),
            y2="high:Q",
            color=colour,
            description="description:N",
        )
    )
    panel: AnyChart = drawn.properties(width=width, height=HEIGHT)
    return panel


def _counts(most: float) -> list[int]:
    """Where an axis of counts is labelled: what is counted has no halves."""
    top = max(1, math.ceil(most))
    return list(range(0, top + 1, -(-top // 4)))


def _with_colours(names: Sequence[str], most: int) -> dict[str, str]:
    """Under which name each thing is drawn."""
    if len(names) <= most:
        return {name: name for name in names}
    kept = names[: most - 1]
    return {name: name if name in kept else OTHERS for name in names}


def _bars(
    one: StackedSlot, shown: Mapping[str, str], times: SlotTimes | None, *, is_share: bool
) -> list[dict[str, float | str]]:
    bars: list[dict[str, float | str]] = []
    low = 0.0
    # In the order of the legend, whatever the order within a slot.
    for name, kind in shown.items():
        amount = one.amounts.get(name, 0.0)
        if amount > 0:
            words = f"{amount:.0%}" if is_share else f"{amount:g}"
            bars.append(
                {
                    "from": one.slot + 0.06,
                    "to": one.slot + 0.94,
                    "low": low,
                    "high": low + amount,
                    "kind": kind,
                    "description": f"{slot_name(one.slot, times)}: {name} {words}",
                }
            )
            low += amount
    return bars


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
    times: SlotTimes | None = None,
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
        times: when slots begin; else they are numbered.
    """
    if not costs:
        raise ValueError("no slot to draw; expected one at least")
    num_slots = max(slot for slot, _ in costs) + 1
    has_more = any(one.amounts for one in had)
    title = "" if has_more else "slot"
    cost = _cost(costs, cap, num_slots, palette, width, title=title, times=times)
    if not has_more:
        return apply_theme(cost, palette)
    below = stacked_panel(had, palette, width, y_title=had_title, is_share=is_share, times=times)
    return apply_theme(alt.vconcat(cost, below, spacing=16), palette)


def _cost(
    costs: Sequence[tuple[int, float]],
    cap: float,
    num_slots: int,
    palette: Palette,
    width: int,
    *,
    title: str,
    times: SlotTimes | None,
) -> AnyChart:
    rows = [
        {
            "from": slot,
            "to": slot + 1,
            "cost": cost,
            "description": f"{slot_name(slot, times)}: {cost:.4f} so far",
        }
        for slot, cost in costs
    ]
    # With room above the line of the cap for its name.
    most = 1.2 * max(cap, *(cost for _, cost in costs))
    scale = alt.Scale(domain=[0, most or 1.0], nice=False)
    y = alt.Y("cost:Q", title="cost so far", scale=scale, axis=alt.Axis(tickCount=3))
    x = slot_axis("from", num_slots, width, title=title, times=times)
    steps = alt.Chart(inline_data(rows)).mark_rect(color=palette.accent, opacity=0.85)
    drawn = steps.transform_calculate(zero="0").encode(
        x=x, x2="to:Q", y=y, y2="zero:Q", description="description:N"
    )
    limit = alt.Chart(inline_data([{"cost": cap, "description": f"cap {cap:.4f}"}]))
    rule = limit.mark_rule(color=palette.warning, strokeWidth=1.6, strokeDash=[5, 4])
    words = limit.mark_text(
        align="right", baseline="bottom", dy=-3, color=palette.warning, text=f"cap {cap:,.4f}"
    )
    return alt.layer(
        drawn,
        rule.encode(y=alt.Y("cost:Q"), description="description:N"),
        words.encode(x=alt.value(width), y=alt.Y("cost:Q")),
    ).properties(width=width, height=COST_HEIGHT)


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
    times: SlotTimes | None = None,
) -> AnyChart:
    """Three panels: the price, with that on demand dashed; how many there are; how many are held.

    Args:
        slots: in their order; one at least.
        on_demand_price: of an instance on demand for a slot.
        palette: colours.
        width: pixels of the panels.
        times: when slots begin; else they are numbered.
    """
    if not slots:
        raise ValueError("no slot to draw; expected one at least")
    num_slots = slots[-1].slot + 1
    held = [StackedSlot(one.slot, {"on demand": one.on_demand, "spot": one.spot}) for one in slots]
    prices = [(one.slot, one.price) for one in slots]
    there = [(one.slot, float(one.available)) for one in slots]
    price = _steps(prices, "spot price", palette, num_slots, width, PRICE_HEIGHT, times)
    rule = (
        alt.Chart(inline_data([{"value": on_demand_price}]))
        .mark_rule(color=palette.warning, strokeWidth=1.6, strokeDash=[5, 4])
        .encode(y="value:Q")
    )
    panels = alt.vconcat(
        alt.layer(price, rule).properties(width=width, height=PRICE_HEIGHT),
        _steps(there, "spot available", palette, num_slots, width, THERE_HEIGHT, times),
        stacked_panel(held, palette, width, y_title="held", times=times),
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
    times: SlotTimes | None,
) -> AnyChart:
    rows = [
        {
            "slot": slot,
            "end": slot + 1,
            "value": value,
            "description": f"{slot_name(slot, times)}: {title} {value:g}",
        }
        for slot, value in values
    ]
    y = alt.Y("value:Q", title=title, scale=alt.Scale(zero=True), axis=alt.Axis(tickCount=3))
    x = slot_axis("slot", num_slots, width, title="", times=times)
    rule = alt.Chart(inline_data(rows)).mark_rule(color=palette.accent, strokeWidth=2.5)
    drawn: AnyChart = rule.encode(x=x, x2="end:Q", y=y, description="description:N")
    return drawn.properties(width=width, height=height)


_SPREAD_HEIGHT = 34


@dataclass(frozen=True, slots=True)
class Spread:
    """One quantity.

    Attributes:
        title: with its unit.
        expected, p90: likely, and kept with a probability of 0.9.
        limit: that its owner sets; None: there is none.
        limit_name: what the limit is called.
    """

    title: str
    expected: float
    p90: float
    limit: float | None = None
    limit_name: str = ""


def spread_chart(
    spreads: Sequence[Spread], palette: Palette = LIGHT, *, width: int = 1040
) -> AnyChart:
    """A bar a quantity: full up to what is expected, pale up to p90, the limit as a dashed line.

    Args:
        spreads: from the top down; one at least.
        palette: colours.
        width: pixels of a panel.
    """
    if not spreads:
        raise ValueError("no quantity to draw; expected one at least")
    panels = [_panel(one, palette, width) for one in spreads]
    return apply_theme(alt.vconcat(*panels, spacing=18), palette)


def _panel(one: Spread, palette: Palette, width: int) -> AnyChart:
    most = max(one.expected, one.p90, one.limit or 0.0) or 1.0
    x = alt.X(
        "high:Q",
        title=one.title,
        scale=alt.Scale(domain=[0, 1.06 * most], nice=False),
        axis=alt.Axis(tickCount=max(3, width // 130), grid=False),
    )
    parts = []
    for name, value, size, colour in (
        ("in 9 of 10 cases at most", one.p90, 22, palette.pending),
        ("expected", one.expected, 12, palette.accent),
    ):
        rows = [{"high": value, "zero": 0, "description": f"{one.title} {name}: {value:,.4g}"}]
        bar = alt.Chart(inline_data(rows)).mark_bar(size=size, color=colour)
        parts.append(
            bar.encode(
                x=x, x2="zero:Q", y=alt.value(_SPREAD_HEIGHT / 2), description="description:N"
            )
        )
    if one.limit is not None:
        rows = [{"high": one.limit, "description": f"{one.limit_name}: {one.limit:,.4g}"}]
        there = alt.Chart(inline_data(rows))
        line = there.mark_rule(color=palette.warning, strokeWidth=1.8, strokeDash=[5, 4])
        parts.append(line.encode(x="high:Q", description="description:N"))
        words = there.mark_text(
            align="right", baseline="bottom", dx=-4, color=palette.warning, text=one.limit_name
        )
        parts.append(words.encode(x="high:Q", y=alt.value(-2)))
    return alt.layer(*parts).properties(width=width, height=_SPREAD_HEIGHT)
