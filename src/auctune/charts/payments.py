"""Who paid what: each payment by its parts, against the bid."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import altair as alt

from auctune.charts.theme import (
    LIGHT,
    AnyChart,
    Palette,
    apply_theme,
    inline_data,
    legend_columns,
    name_limit,
    name_width,
)

MAX_BILLS = 40
PARTS = ("market price", "operating cost", "vendor")
UNCOVERED = "cost not covered"
ASKED = "asked, not sold"


@dataclass(frozen=True, slots=True)
class Bill:
    """One task's money, in any currency.

    Attributes:
        task: its name.
        bid: what its owner would have paid at most.
        payment: what its owner pays; 0 if rejected.
        vendor, operating: parts of what it costs; 0 if rejected.
        asked: price of a rejected task's best plan; None where there is no plan.
    """

    task: str
    bid: Decimal
    payment: Decimal = Decimal(0)
    vendor: Decimal = Decimal(0)
    operating: Decimal = Decimal(0)
    asked: Decimal | None = None


def payment_chart(
    bills: Sequence[Bill], palette: Palette = LIGHT, *, width: int = 1040
) -> AnyChart:
    """Return a bar a task from nothing to its payment, and a mark at its bid.

    Of more than 40 tasks the 40 with the highest payment, then bid, are shown.

    Args:
        bills: in the order of the rows.
        palette: colours.
        width: pixels of the whole chart, names included.
    """
    shown = select_bills(bills)
    names = [bill.task for bill in shown]
    row_height = 26.0 if len(shown) <= 24 else 17.0
    largest = max((float(max(bill.bid, bill.payment)) for bill in shown), default=0.0) or 1.0
    y = alt.Y(
        "task:O",
        sort=names,
        axis=alt.Axis(title=None, labelLimit=name_limit(width)),
        scale=alt.Scale(domain=names),
    )
    x = alt.X(
        "begin:Q",
        axis=alt.Axis(title="money", tickCount=5, format=",.4~f"),
        scale=alt.Scale(domain=[0, 1.04 * largest], nice=False),
    )
    chart = alt.layer(
        _segments(shown, x, y, 0.5 * row_height, palette, legend_columns(width)),
        _bids(shown, x, y, row_height, palette),
    )
    plot_width = max(80, width - name_width(names, width) - 16)
    return apply_theme(
        chart.properties(width=plot_width, height=max(1, len(shown)) * row_height), palette
    )


def select_bills(bills: Sequence[Bill]) -> list[Bill]:
    """At most 40 of them, in their order."""
    by_size = sorted(bills, key=lambda bill: (bill.payment, bill.bid), reverse=True)
    chosen = {bill.task for bill in by_size[:MAX_BILLS]}
    return [bill for bill in bills if bill.task in chosen]


def _segments(
    bills: Sequence[Bill], x: alt.X, y: alt.Y, thickness: float, palette: Palette, columns: int
) -> AnyChart:
    values = [segment for bill in bills for segment in _split(bill)]
    colours = dict(zip(PARTS, (palette.market, palette.operating, palette.vendor), strict=True))
    colours |= {UNCOVERED: palette.warning, ASKED: palette.grid}
    present = [part for part in colours if any(value["part"] == part for value in values)]
    colour = alt.Color(
        "part:N",
        scale=alt.Scale(domain=present, range=[colours[part] for part in present]),
        legend=alt.Legend(title=None, columns=columns) if present else None,
        sort=present,
    )
    mark = alt.Chart(inline_data(values)).mark_bar(height=thickness, clip=True)
    chart: AnyChart = mark.encode(x=x, x2="end:Q", y=y, color=colour, description="description:N")
    return chart


def _split(bill: Bill) -> Iterator[dict[str, Any]]:
    """Return the parts of a payment one after another; costs beyond the payment are not covered."""
    cost = bill.vendor + bill.operating
    if not bill.payment and bill.asked is not None:
        yield _segment(bill.task, ASKED, Decimal(0), bill.asked)
        return
    ends = (bill.vendor, cost, max(cost, bill.payment))
    begin = Decimal(0)
    for part, end in zip(reversed(PARTS), ends, strict=True):
        if min(end, bill.payment) > begin:
            yield _segment(bill.task, part, begin, min(end, bill.payment))
        begin = end
    if cost > bill.payment:
        yield _segment(bill.task, UNCOVERED, bill.payment, cost)


def _segment(task: str, part: str, begin: Decimal, end: Decimal) -> dict[str, Any]:
    return {
        "task": task,
        "part": part,
        "begin": float(begin),
        "end": float(end),
        "description": f"{task}: {part} {end - begin:.4f}",
    }


def _bids(
    bills: Sequence[Bill], x: alt.X, y: alt.Y, row_height: float, palette: Palette
) -> AnyChart:
    values = [
        {"task": bill.task, "begin": float(bill.bid), "description": f"{bill.task}: bid {bill.bid}"}
        for bill in bills
    ]
    mark = alt.Chart(inline_data(values)).mark_tick(
        color=palette.ink, thickness=2, size=0.72 * row_height, opacity=1
    )
    chart: AnyChart = mark.encode(x=x, y=y, description="description:N")
    return chart
