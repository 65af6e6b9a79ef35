"""The plan as a Gantt chart: a row a task, coloured where it trains, by node.

A thin line runs from the bid to the deadline, so that slack can be seen; grey is the vendor's
work before training can start; a dot marks the slot in which training really ended.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import altair as alt

from auctune.charts.theme import (
    LIGHT,
    AnyChart,
    Palette,
    SlotTimes,
    apply_theme,
    inline_data,
    legend_columns,
    name_limit,
    name_width,
    slot_axis,
)

VENDOR_WORK = "vendor's work"
TRAINING = "training"


@dataclass(frozen=True, slots=True)
class PlanRow:
    """One task of the plan.

    Attributes:
        task: its name.
        arrival, deadline: slots, the deadline inclusive.
        cells: (slot, node) in slot order; empty if rejected.
        vendor_delay: slots of a vendor's work from arrival on.
        finished_slot: slot in which it really ended; None: not (yet).
        remark: shown in its row where there are no cells: why it was rejected.
    """

    task: str
    arrival: int
    deadline: int
    cells: tuple[tuple[int, str], ...] = ()
    vendor_delay: int = 0
    finished_slot: int | None = None
    remark: str = ""


def plan_chart(
    rows: Sequence[PlanRow],
    nodes: Sequence[str],
    slots: int,
    palette: Palette = LIGHT,
    *,
    width: int = 1040,
    times: SlotTimes | None = None,
) -> AnyChart:
    """Tasks from top to bottom as given, slots from left to right.

    More nodes than the palette has colours for are drawn in one; tooltips name them.

    Args:
        rows: the tasks.
        nodes: names, in the order of the legend.
        slots: of the horizon.
        palette: colours.
        width: pixels of the whole chart, names included.
        times: when slots begin; else they are numbered.
    """
    names = [row.task for row in rows]
    row_height = _row_height(len(rows))
    named = row_height >= 12
    plot_width = max(80, width - (name_width(names, width) if named else 0) - 16)
    axis = _task_axis(width) if named else None
    y = alt.Y("task:O", sort=names, axis=axis, scale=alt.Scale(domain=names, padding=0))
    x = slot_axis("begin", slots, plot_width, times=times)
    layers = [
        _windows(rows, x, y, palette, times),
        _remarks(rows, x, y, palette) if named else None,
        _bars(rows, nodes, x, y, row_height, palette, legend_columns(width), times),
        _finishes(rows, x, y, palette),
    ]
    chart = alt.layer(*(layer for layer in layers if layer is not None))
    height = max(row_height, row_height * len(rows))
    return apply_theme(chart.properties(width=plot_width, height=height), palette)


def _task_axis(width: int) -> alt.Axis:
    return alt.Axis(title=None, grid=True, tickBand="extent", labelLimit=name_limit(width))


def _row_height(num_rows: int) -> float:
    if num_rows <= 24:
        return 26.0
    return 15.0 if num_rows <= 60 else max(2.0, 900 / num_rows)


def _windows(
    rows: Sequence[PlanRow], x: alt.X, y: alt.Y, palette: Palette, times: SlotTimes | None
) -> AnyChart:
    values = [
        {
            "task": row.task,
            "begin": row.arrival,
            "end": row.deadline + 1,
            "description": f"{row.task}: bid in slot {row.arrival}, deadline slot {row.deadline}"
            if times is None
            else f"{row.task}: {times.name(row.arrival)} to {times.name(row.deadline + 1)}",
        }
        for row in rows
    ]
    base = alt.Chart(inline_data(values)).encode(y=y)
    line = base.mark_rule(stroke=palette.muted, strokeWidth=1.25).encode(
        x=x, x2="end:Q", description="description:N"
    )
    deadline = base.mark_tick(
        color=palette.muted, thickness=1.5, size=9, opacity=1, aria=False
    ).encode(x=alt.X("end:Q"))
    return alt.layer(line, deadline)


def _remarks(rows: Sequence[PlanRow], x: alt.X, y: alt.Y, palette: Palette) -> AnyChart | None:
    values = [
        {"task": row.task, "begin": row.arrival, "remark": row.remark}
        for row in rows
        if row.remark and not row.cells
    ]
    if not values:
        return None
    text = alt.Chart(inline_data(values)).mark_text(
        align="left", baseline="bottom", dx=4, dy=-1, fontSize=10, color=palette.muted, aria=False
    )
    chart: AnyChart = text.encode(x=x, y=y, text="remark:N")
    return chart


def _bars(
    rows: Sequence[PlanRow],
    nodes: Sequence[str],
    x: alt.X,
    y: alt.Y,
    row_height: float,
    palette: Palette,
    columns: int,
    times: SlotTimes | None,
) -> AnyChart:
    many = len(nodes) > len(palette.nodes)
    series = [TRAINING] if many else list(nodes)
    colours = [palette.accent] if many else list(palette.nodes[: len(nodes)])
    if any(row.vendor_delay for row in rows if row.cells):
        series, colours = [*series, VENDOR_WORK], [*colours, palette.pending]
    values = [
        bar | {"series": TRAINING if many and bar["series"] != VENDOR_WORK else bar["series"]}
        for row in rows
        for bar in (*_vendor_bars(row), *_training_bars(row, times))
    ]
    legend = alt.Legend(title=None, columns=columns)
    colour = alt.Color(
        "series:N", scale=alt.Scale(domain=series, range=colours), legend=legend, sort=series
    )
    thickness = max(1.5, 0.58 * row_height)
    mark = alt.Chart(inline_data(values)).mark_bar(height=thickness, cornerRadius=2)
    chart: AnyChart = mark.encode(x=x, x2="end:Q", y=y, color=colour, description="description:N")
    return chart


def _vendor_bars(row: PlanRow) -> Iterator[dict[str, Any]]:
    if row.vendor_delay and row.cells:
        yield {
            "task": row.task,
            "begin": row.arrival,
            "end": row.arrival + row.vendor_delay,
            "series": VENDOR_WORK,
            "description": f"{row.task}: vendor's work, {row.vendor_delay} slots",
        }


def _training_bars(row: PlanRow, times: SlotTimes | None) -> Iterator[dict[str, Any]]:
    """One bar for each run of neighbouring slots on one node."""
    numbered = enumerate(row.cells)
    for (node, _), run in groupby(numbered, key=lambda item: (item[1][1], item[1][0] - item[0])):
        slots = [cell[0] for _, cell in run]
        span = (
            f"in slots {slots[0]} to {slots[-1]}"
            if times is None
            else f"from {times.name(slots[0])} to {times.name(slots[-1] + 1)}"
        )
        yield {
            "task": row.task,
            # A hair of ground between neighbouring runs.
            "begin": slots[0] + 0.03,
            "end": slots[-1] + 0.97,
            "series": node,
            "description": f"{row.task}: trains on {node} {span}",
        }


def _finishes(rows: Sequence[PlanRow], x: alt.X, y: alt.Y, palette: Palette) -> AnyChart | None:
    values = [
        {
            "task": row.task,
            "begin": row.finished_slot + 0.5,
            "description": f"{row.task}: done in slot {row.finished_slot}",
        }
        for row in rows
        if row.finished_slot is not None
    ]
    if not values:
        return None
    mark = alt.Chart(inline_data(values)).mark_point(
        shape="circle", filled=True, size=26, opacity=1, color=palette.ink, stroke=palette.surface
    )
    chart: AnyChart = mark.encode(x=x, y=y, description="description:N")
    return chart
