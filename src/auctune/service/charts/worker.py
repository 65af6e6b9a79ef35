"""Process that renders charts; see `auctune.service.charts.messages`."""

import re
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from auctune.charts import (
    LossCurve,
    Palette,
    PlanRow,
    loss_chart,
    plan_chart,
    price_map,
    to_figure,
    utilization_map,
)
from auctune.charts.curves import Curve, CurvePanel, curves_chart
from auctune.charts.menu import ChoicePoint, MenuPoint, choices_chart, menu_chart
from auctune.charts.metered import (
    RentedSlot,
    Spread,
    StackedSlot,
    metered_chart,
    rented_chart,
    spread_chart,
    stacked_chart,
)
from auctune.charts.render import DrawChart
from auctune.charts.theme import AnyChart, SlotTimes
from auctune.engine.runtime.channel import ParentChannel
from auctune.service.charts.messages import (
    CHART_MESSAGES,
    ChartReply,
    ChartRequest,
    Draw,
    Drawn,
    NotDrawn,
)

MESSAGES = CHART_MESSAGES

WIDE, HALF, NARROW = 1040, 496, 316
# Width of an axis of numbers, which `curves_chart` adds to its own width.
_AXIS = 72
# Margins of a chart without an axis.
_EDGES = 24
# Links of marks lead to the same page, whatever prefix the renderer adds.
_LINKS = re.compile(r'xlink:href="[^"#]*#(line-\d+)"')
# The image has one role; its parts have none.
_ROLES = re.compile(r' (?:role="graphics-[a-z]+"|aria-hidden="true")')

# Times in labels and tooltips, which a script of the page shows in local time.
_TIMES = re.compile(r"<(text|title)([^>]*)>([^<]*\dT\d\d:\d\d:\d\dZ[^<]*)<")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT(\d\d:\d\d:\d\d)Z")

Data = dict[str, Any]


def _grid(data: Data) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    return np.array(data["values"], dtype=np.float64), tuple(data["nodes"])


def _price(unit: str, data: Data) -> DrawChart:
    busiest = data.get("busiest", 1.0)
    return partial(price_map, *_grid(data), unit, busiest=busiest, times=_times(data))


def _use(resource: str, data: Data) -> DrawChart:
    return partial(utilization_map, *_grid(data), resource, times=_times(data))


def _times(data: Data) -> SlotTimes:
    return SlotTimes(**data["times"])


def _plan(data: Data) -> DrawChart:
    rows = TypeAdapter(list[PlanRow]).validate_python(data["rows"])
    return partial(plan_chart, rows, data["nodes"], data["slots"], times=_times(data))


def _losses(data: Data) -> DrawChart:
    curves = TypeAdapter(list[LossCurve]).validate_python(data["curves"])
    return partial(loss_chart, curves)


def _menu(data: Data) -> DrawChart:
    return partial(menu_chart, [MenuPoint(**point) for point in data["points"]])


def _over_time(data: Data) -> DrawChart:
    panels = [
        CurvePanel(
            panel["title"],
            panel["quantity"],
            [Curve(one["name"], one["x"], one["y"]) for one in panel["curves"]],
            format=",.4~f",
        )
        for panel in data["panels"]
    ]

    def draw(palette: Palette, *, width: int) -> AnyChart:
        x_title = data["x_title"]
        return curves_chart(panels, palette, x_title=x_title, width=width - _AXIS, steps=True)

    return draw


def _choices(data: Data) -> DrawChart:
    return partial(choices_chart, [ChoicePoint(**point) for point in data["points"]])


def _spread(data: Data) -> DrawChart:
    spreads = [Spread(**one) for one in data["spreads"]]
    return lambda palette, *, width: spread_chart(spreads, palette, width=width - _EDGES)


def _stacked_slots(data: Data) -> list[StackedSlot]:
    return [StackedSlot(one["slot"], one["amounts"]) for one in data["slots"]]


def _metered(data: Data) -> DrawChart:
    costs = [(slot, cost) for slot, cost in data["costs"]]
    slots, cap = _stacked_slots(data), data["cap"]
    options = {key: data[key] for key in ("had_title", "is_share")} | {"times": _times(data)}
    return lambda palette, *, width: metered_chart(
        costs, cap, slots, palette, width=width - _AXIS, **options
    )


def _rented(data: Data) -> DrawChart:
    slots = [RentedSlot(**one) for one in data["slots"]]
    price, times = data["on_demand_price"], _times(data)
    return lambda palette, *, width: rented_chart(
        slots, price, palette, width=width - _AXIS, times=times
    )


def _shares(data: Data) -> DrawChart:
    slots, times = _stacked_slots(data), _times(data)
    return lambda palette, *, width: stacked_chart(
        slots,
        palette,
        y_title="share of the pool",
        is_share=True,
        width=width - _AXIS,
        times=times,
    )


CHARTS: dict[str, tuple[Callable[[Data], DrawChart], int]] = {
    "compute-price": (partial(_price, "sample"), HALF),
    "memory-price": (partial(_price, "GB-slot"), HALF),
    "compute-use": (partial(_use, "compute"), HALF),
    "memory-use": (partial(_use, "memory"), HALF),
    "site-price": (partial(_price, "unit-slot"), WIDE),
    "site-use": (partial(_use, "a site"), WIDE),
    "plan": (_plan, WIDE),
    "losses": (_losses, WIDE),
    "menu": (_menu, WIDE),
    "over-time": (_over_time, WIDE),
    "choices": (_choices, WIDE),
    "spread": (_spread, WIDE),
    "metered": (_metered, WIDE),
    "rented": (_rented, WIDE),
    "shares": (_shares, WIDE),
    "targets": (_losses, WIDE),
}
"""Function and width in pixels of each chart."""


def draw(chart: str, data: Data, text: str) -> str:
    """Render a chart of `CHARTS` as HTML, with a text alternative."""
    make, wide = CHARTS[chart]
    html = to_figure(make(data), chart, wide=wide, narrow=NARROW, alt_text=text)
    html = _TIMES.sub(_with_times, _ROLES.sub("", html))
    if chart == "menu":
        # Its marks are links to rows of the table beside it, so it is not an image.
        html = html.replace('role="img"', 'role="group"', 1)
        html = _LINKS.sub(r'href="#\1"', html)
    return html


def _with_times(match: re.Match[str]) -> str:
    """Return an element with its times in UTC, and with the text as it was in `data-times`."""
    tag, attributes, text = match.groups()
    # Names of jobs may have quotes, which would end the attribute.
    quoted = text.replace('"', "&quot;")
    return f'<{tag}{attributes} data-times="{quoted}">{_TIME.sub(_utc_time, text)}<'


def _utc_time(match: re.Match[str]) -> str:
    return match[1].removesuffix(":00")


def main(parent: ParentChannel[ChartReply, ChartRequest], _argument: None) -> None:
    """Render charts until the parent stops the process."""
    while not parent.stop_requested.is_set():
        request = parent.inbox.get()
        if not isinstance(request, Draw):
            continue
        begun = time.process_time()
        try:
            html = draw(request.chart, request.data, request.text)
        # An error concerns one chart: report and log it.
        except Exception as error:
            traceback.print_exc(file=sys.stderr)
            reason = f"{type(error).__name__}: {error}"
            parent.send(NotDrawn(reason=reason, seconds=time.process_time() - begun))
        else:
            parent.send(Drawn(html=html, seconds=time.process_time() - begun))
