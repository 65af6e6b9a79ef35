"""Amounts of several things, slot by slot, one on top of the other."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import altair as alt

from auctune.charts.palette import LIGHT, Palette
from auctune.charts.theme import AnyChart, apply_theme, inline_data, legend_columns, slot_axis

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
) -> AnyChart:
    """Bars over slots, the first thing undermost.

    Args:
        slots: in their order; one at least with an amount.
        palette: colours.
        y_title: of the axis of amounts.
        unit: what the axis of slots counts.
        is_share: amounts are shares of 1.
        width: pixels of a panel.
    """
    panel = stacked_panel(slots, palette, width, y_title=y_title, unit=unit, is_share=is_share)
    return apply_theme(panel, palette)


def stacked_panel(
    slots: Sequence[StackedSlot],
    palette: Palette,
    width: int,
    *,
    y_title: str,
    unit: str = "slot",
    is_share: bool = False,
) -> AnyChart:
    """Return the same as a part of a chart."""
    names = list(dict.fromkeys(name for one in slots for name in one.amounts))
    if not names:
        raise ValueError("no amount to draw; expected one at least")
    shown = _with_colours(names, len(palette.nodes))
    bars = [bar for one in slots for bar in _bars(one, shown, is_share=is_share)]
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
            x=slot_axis("from", num_slots, width, title=unit),
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
    one: StackedSlot, shown: Mapping[str, str], *, is_share: bool
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
                    "description": f"slot {one.slot}: {name} {words}",
                }
            )
            low += amount
    return bars
