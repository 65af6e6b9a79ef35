"""Charts of renting by deadline: one job slot by slot, policies, goodness of fit."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from auctune.charts.theme import (
    CHARACTER_WIDTH,
    LABEL_SIZE,
    LIGHT,
    AnyChart,
    Palette,
    apply_theme,
    inline_data,
    slot_axis,
)

PRICE_HEIGHT = 70
HELD_HEIGHT = 150
PROGRESS_HEIGHT = 120


@dataclass(frozen=True, slots=True)
class SlotPoint:
    """One slot.

    Attributes:
        slot: since the job began.
        price: of a spot GPU, in units of the on-demand price.
        available: spot GPUs there were.
        on_demand, spot: GPUs held.
        progress, expected: work done by the slot's end, and that an even pace would have done.
        cost: of the slot.
    """

    slot: int
    price: float
    available: int
    on_demand: int
    spot: int
    progress: float
    expected: float
    cost: float


def spot_job_chart(
    points: Sequence[SlotPoint], num_slots: int, palette: Palette = LIGHT, *, width: int = 720
) -> AnyChart:
    """Three panels over the slots up to the deadline.

    The spot price; GPUs held, spot below on-demand, and as a line the spot GPUs that there were;
    progress as bars beside the even pace as a line.

    Args:
        points: slots from 0 on, up to the end of the work.
        num_slots: up to the deadline.
        palette: colours.
        width: pixels of the panels.
    """
    if not points:
        raise ValueError("no slot to draw; expected one at least")
    data = inline_data([_row(point) for point in points])
    panels = alt.vconcat(
        _prices(data, num_slots, palette, width),
        _held(points, data, num_slots, palette, width),
        _progress(points, data, num_slots, palette, width),
        spacing=18,
    )
    return apply_theme(panels.resolve_scale(color="independent"), palette)


def _row(point: SlotPoint) -> dict[str, Any]:
    return {
        "slot": point.slot,
        "end": point.slot + 1,
        "price": point.price,
        "available": point.available,
        "progress": point.progress,
        "description": f"slot {point.slot}: price {point.price:.3f}, "
        f"{point.available} spot available; held {point.on_demand} on-demand and "
        f"{point.spot} spot; cost {point.cost:.3f}",
    }


def _prices(data: alt.InlineData, num_slots: int, palette: Palette, width: int) -> AnyChart:
    y = alt.Y("price:Q", title="spot price", axis=alt.Axis(tickCount=3), scale=alt.Scale(zero=True))
    x = slot_axis("slot", num_slots, width, title="")
    rule = alt.Chart(data).mark_rule(color=palette.accent, strokeWidth=2.5)
    drawn = rule.encode(x=x, x2="end:Q", y=y, description="description:N")
    return alt.layer(drawn).properties(width=width, height=PRICE_HEIGHT)


def _held(
    points: Sequence[SlotPoint],
    data: alt.InlineData,
    num_slots: int,
    palette: Palette,
    width: int,
) -> AnyChart:
    names, colours = ["spot", "on-demand", "spot available"], _colours(palette)
    bars = []
    for point in points:
        low = 0
        for name, count in (("spot", point.spot), ("on-demand", point.on_demand)):
            if count:
                bars.append(
                    {
                        "from": point.slot + 0.06,
                        "to": point.slot + 0.94,
                        "low": low,
                        "high": low + count,
                        "kind": name,
                        "description": f"slot {point.slot}: {count} {name} held",
                    }
                )
            low += count
    x = slot_axis("from", num_slots, width, title="")
    colour = alt.Color(
        "kind:N", scale=alt.Scale(domain=names, range=colours), legend=alt.Legend(title=None)
    )
    y = alt.Y("low:Q", title="GPUs", axis=alt.Axis(tickMinStep=1, tickCount=5, format="d"))
    held = (
        alt.Chart(inline_data(bars))
        .mark_rect()
        .encode(x=x, x2="to:Q", y=y, y2="high:Q", color=colour, description="description:N")
    )
    there = alt.Chart(data).mark_rule(strokeWidth=2, color=palette.ink)
    line = there.encode(
        x=slot_axis("slot", num_slots, width, title=""), x2="end:Q", y="available:Q"
    )
    return alt.layer(held, line).properties(width=width, height=HELD_HEIGHT)


def _progress(
    points: Sequence[SlotPoint],
    data: alt.InlineData,
    num_slots: int,
    palette: Palette,
    width: int,
) -> AnyChart:
    y = alt.Y("progress:Q", title="work done", axis=alt.Axis(tickCount=4))
    bars = alt.Chart(data).mark_rect(color=palette.pending)
    done = bars.transform_calculate(
        left="datum.slot + 0.06", right="datum.end - 0.06", zero="0"
    ).encode(x=slot_axis("left", num_slots, width), x2="right:Q", y=y, y2="zero:Q")
    ends = inline_data(
        [{"end": 0, "expected": 0.0}, {"end": points[-1].slot + 1, "expected": points[-1].expected}]
    )
    pace = alt.Chart(ends).mark_line(color=palette.warning, strokeWidth=1.8, strokeDash=[5, 4])
    line = pace.encode(x=alt.X("end:Q"), y=alt.Y("expected:Q"))
    words = alt.Chart(inline_data([{}])).mark_text(
        align="left", baseline="top", color=palette.warning, text="even pace (dashed)"
    )
    named = words.encode(x=alt.value(4), y=alt.value(2))
    return alt.layer(done, line, named).properties(width=width, height=PROGRESS_HEIGHT)


def _colours(palette: Palette) -> list[str]:
    return [palette.nodes[0], palette.nodes[1], palette.ink]


PANEL_HEIGHT = 190


@dataclass(frozen=True, slots=True)
class Band:
    """One panel.

    Attributes:
        x_title, y_title: of the axes, with units.
        x: rising.
        record: one a value of x.
        low, high: of what was made up, one a value of x.
    """

    x_title: str
    y_title: str
    x: Sequence[float]
    record: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]


def goodness_of_fit_chart(
    bands: Sequence[Band], palette: Palette = LIGHT, *, width: int = 720
) -> AnyChart:
    """Panels side by side: the record as a line, the middle 80% of what was made up as a band.

    Args:
        bands: the panels.
        palette: colours.
        width: pixels of the whole chart.
    """
    if not any(len(band.x) for band in bands):
        raise ValueError("no panel has a point; expected one at least")
    each = (width - 70 * len(bands)) // len(bands)
    panels = [_panel(band, palette, each) for band in bands]
    return apply_theme(alt.concat(*panels, spacing=24), palette)


def _panel(band: Band, palette: Palette, width: int) -> AnyChart:
    values = [
        {"x": x, "record": record, "low": low, "high": high}
        for x, record, low, high in zip(band.x, band.record, band.low, band.high, strict=True)
    ]
    x = alt.X(
        "x:Q",
        scale=alt.Scale(nice=False),
        axis=alt.Axis(title=band.x_title, grid=False, tickCount=5),
    )
    base = alt.Chart(inline_data(values)).encode(x=x)
    y_axis = alt.Axis(title=band.y_title, tickCount=5)
    area = base.mark_area(color=palette.pending, opacity=0.6).encode(
        y=alt.Y("low:Q", axis=y_axis), y2="high:Q"
    )
    line = base.mark_line(color=palette.accent, strokeWidth=2).encode(
        y=alt.Y("record:Q", axis=y_axis)
    )
    return alt.layer(area, line).properties(width=width, height=PANEL_HEIGHT)


ROW_HEIGHT = 30
# Wider than names elsewhere: policies differ in their parameters, which stand at their ends.
_MOST_NAME = 260


@dataclass(frozen=True, slots=True)
class PolicyPoint:
    """One policy.

    Attributes:
        name: as it is shown, different from the others'.
        utility, low, high: mean, and its interval's ends.
        on_time: share of the jobs.
    """

    name: str
    utility: float
    low: float
    high: float
    on_time: float


def policy_comparison_chart(
    policies: Sequence[PolicyPoint], optimum: float, palette: Palette = LIGHT, *, width: int = 720
) -> AnyChart:
    """Return a bar of mean utility a policy with its interval; the optimum as a line.

    Args:
        policies: from the top down; at least one.
        optimum: mean utility of the offline optimum.
        palette: colours.
        width: pixels of the whole chart.
    """
    if not policies:
        raise ValueError("no policy to draw; expected one at least")
    data = inline_data([_policy_row(policy) for policy in policies])
    names = [policy.name for policy in policies]
    longest = int(min(_MOST_NAME, 12 + CHARACTER_WIDTH * max(map(len, names))))
    y = alt.Y(
        "name:N", sort=names, axis=alt.Axis(title=None, labelLimit=longest), scale=alt.Scale()
    )
    x = alt.X("utility:Q", title="mean utility, GPU-slots on demand", axis=alt.Axis(tickCount=6))
    base = alt.Chart(data).encode(y=y)
    bars = base.mark_bar(color=palette.accent, height={"band": 0.62}).encode(
        x=x, description="description:N"
    )
    spread = base.mark_rule(color=palette.ink, strokeWidth=1.6).encode(x="low:Q", x2="high:Q")
    share = base.mark_text(
        align="left", dx=10, color=palette.muted, fontSize=LABEL_SIZE, clip=False
    ).encode(x=alt.value(width - longest - 120), text="label:N")
    best = inline_data([{"utility": optimum, "words": f"optimum {optimum:,.2f}"}])
    line = alt.Chart(best).mark_rule(color=palette.warning, strokeDash=[5, 4], strokeWidth=1.4)
    words = alt.Chart(best).mark_text(
        align="right", baseline="bottom", dy=-5, color=palette.warning, fontSize=LABEL_SIZE
    )
    layered = alt.layer(
        bars,
        spread,
        share,
        line.encode(x="utility:Q"),
        words.encode(x="utility:Q", y=alt.value(0), text="words:N"),
    )
    sized = layered.properties(width=width - longest - 120, height=ROW_HEIGHT * len(policies))
    return apply_theme(sized, palette)


def _policy_row(policy: PolicyPoint) -> dict[str, Any]:
    return {
        "name": policy.name,
        "utility": policy.utility,
        "low": policy.low,
        "high": policy.high,
        "label": f"{policy.on_time:.0%} on time",
        "description": f"{policy.name}: utility {policy.utility:.2f} "
        f"({policy.low:.2f} to {policy.high:.2f}), {policy.on_time:.1%} on time",
    }
