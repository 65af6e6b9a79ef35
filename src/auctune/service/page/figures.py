"""From answers of the API to the charts of a page: what each shows, and the same in words."""

import math
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from itertools import accumulate
from typing import Any

from auctune.service.page.chart_client import Figure
from auctune.service.page.words import name_of, short_id

Shown = Mapping[str, Any]

_PLANS = 60
_SPAN_UNITS = ((2 * 86_400, 86_400, "days"), (2 * 3600, 3600, "hours"), (0, 60, "minutes"))


def zone_maps(prices: Shown) -> dict[str, Figure]:
    """Heat maps of a zone's prices and use, by node and slot."""
    nodes = [node["id"] for node in prices["nodes"]]
    where = f"{len(nodes)} nodes and {len(prices['compute_price'])} slots"

    def grid(chart: str, field: str, what: str) -> Figure:
        used = prices[field.replace("price", "used")]
        busiest = max((share for row in used for share in row), default=0.0)
        data = {"nodes": nodes, "values": prices[field], "busiest": busiest}
        return Figure(chart, data, f"{what}: {where}")

    return {
        "compute_price": grid("compute-price", "compute_price", "Heat map of compute prices"),
        "memory_price": grid("memory-price", "memory_price", "Heat map of memory prices"),
        "compute_used": grid("compute-use", "compute_used", "Heat map of compute in use"),
        "memory_used": grid("memory-use", "memory_used", "Heat map of memory in use"),
    }


def plan_of_zone(plans: Sequence[Shown], prices: Shown) -> Figure | None:
    """The plan of all jobs that are under way; none: there is none."""
    first, slots = prices["first_slot"], len(prices["compute_price"])
    rows = [row for one in plans if (row := _row(one, first, slots, prices)) is not None]
    rows.sort(key=lambda row: (row["arrival"], row["cells"][0][0]))
    if not rows:
        return None
    nodes = [node["id"] for node in prices["nodes"]]
    text = f"Gantt chart of {min(len(rows), _PLANS)} jobs over {slots} slots"
    return Figure("plan", {"rows": rows[:_PLANS], "nodes": nodes, "slots": slots}, text)


def _row(plan: Shown, first: int, slots: int, prices: Shown) -> dict[str, Any] | None:
    if not plan["plan"]:
        return None
    cells = [
        [cell["slot"] - first, cell["node"]]
        for cell in plan["plan"]["cells"]
        if first <= cell["slot"] < first + slots
    ]
    if not cells:
        return None
    came = (plan["created_at"] - prices["first_begins_at"]) / prices["slot_seconds"]
    arrival = min(max(0, math.floor(came)), cells[0][0])
    label = short_id(plan["job"])
    return {"task": label, "arrival": arrival, "deadline": cells[-1][0], "cells": cells}


def plan_of_job(job: Shown, zone: Shown) -> Figure | None:
    """One job's plan, from its first slot or now to its deadline; none: it has none."""
    plan, deadline = job["market"].get("plan"), job["market"].get("deadline")
    if not plan or not plan["cells"]:
        return None
    seconds = zone["slot_seconds"]
    epoch = zone["slot_ends_at"] - (zone["slot"] + 1) * seconds
    cells = [[cell["slot"], cell["node"]] for cell in plan["cells"]]
    first, last = cells[0][0], cells[-1][0]
    if deadline is not None:
        last = max(last, math.floor((deadline - epoch) / seconds + 1e-6) - 1)
    row = {
        "task": name_of(job),
        "arrival": 0,
        "deadline": last - first,
        "cells": [[slot - first, node] for slot, node in cells],
    }
    nodes = list(dict.fromkeys(node for _, node in cells))
    text = f"The plan: {len(cells)} slots on {', '.join(nodes)}, within {last - first + 1} slots"
    return Figure("plan", {"rows": [row], "nodes": nodes, "slots": last - first + 1}, text)


def losses_of(job: Shown, metrics: Sequence[Shown]) -> Figure | None:
    """A job's losses by rows trained on; none: nothing was trained yet.

    Args:
        job: whose.
        metrics: data of its events of training, oldest first.
    """
    training: list[list[float]] = []
    for one in metrics:
        rows_a_step = one["rows"] / max(1, one["step"])
        training += [[round(step * rows_a_step), loss] for step, loss in one["losses"]]
    validation = [[rows, loss] for _, rows, loss in metrics[-1]["validation"]] if metrics else []
    finite = [loss for _, loss in (*training, *validation) if loss is not None]
    # One point makes no line.
    if len(finite) < 2:
        return None
    text = f"Loss curve: from {finite[0]:.3g} to {finite[-1]:.3g}"
    data = {
        "task": name_of(job),
        "training": [point for point in training if point[1] is not None],
        "validation": [point for point in validation if point[1] is not None],
        "threshold": (job["market"].get("target") or {}).get("target_loss"),
    }
    return Figure("losses", data, text)


def menu_of(quote: Shown) -> Figure | None:
    """A quote's lines by finish time; none: it has none that are a price by a time."""
    points = [
        {
            "line": line["line"],
            "seconds": line["finish"] - quote["created_at"],
            "price": float(line["price"]),
            "label": f"line {line['line']}: {line['price']}",
        }
        for line in quote["lines"]
        if line.get("price") is not None and line.get("finish") is not None
    ]
    if len(points) < 2:
        return None
    text = f"Prices of {len(points)} finish times, from {points[0]['price']:g} for the earliest"
    return Figure("menu", {"points": points}, f"{text} to {points[-1]['price']:g} for the last")


def money_over_time(history: Shown, decided: Iterable[Shown]) -> Figure | None:
    """Welfare, revenue and costs so far, added up over the time of the history."""
    since, step, spans = history["since"], history["step_seconds"], history["spans"]
    accounts = history["accounts"]
    welfare = [0.0] * spans
    for one in decided:
        span = (one["created_at"] - since) // step
        if 0 <= span < spans:
            welfare[span] += _welfare(one)
    revenue = _summed([accounts.get("revenue", ())], spans, -1)
    costs = _summed([v for name, v in accounts.items() if name.startswith("cost:")], spans, 1)
    if not any((*welfare, *revenue, *costs)):
        return None
    length = spans * step
    unit, name = next((unit, name) for least, unit, name in _SPAN_UNITS if length >= least)
    at = [((n + 1) * step - length) / unit for n in range(spans)]
    series = {"welfare": _so_far(welfare), "revenue": _so_far(revenue), "costs": _so_far(costs)}
    curves = [{"name": one, "x": at, "y": values} for one, values in series.items()]
    panel = {"title": "", "quantity": "money", "curves": curves}
    ends = ", ".join(f"{one} {values[-1]:,.2f}" for one, values in series.items())
    text = f"So far in this time: {ends}"
    return Figure("over-time", {"panels": [panel], "x_title": f"{name} from now"}, text)


def _welfare(decided: Shown) -> float:
    """Of a job that was bid for its value less its costs, as it was decided on.

    Of one that is metered its worth when it was done, if its owner said what it is worth, less what
    it cost its owner. 0 for all others.
    """
    if decided["refunded"]:
        return 0.0
    metered = decided["metered"]
    if metered is not None and metered["value"] is not None:
        return float(Decimal(metered["value"]) - Decimal(metered["cost"]))
    return decided.get("value") or 0.0


def _so_far(amounts: Iterable[float | Decimal]) -> list[float]:
    return list(accumulate(float(amount) for amount in amounts))


def _summed(series: Iterable[Sequence[str]], spans: int, sign: int) -> list[Decimal]:
    total = [Decimal(0)] * spans
    for amounts in series:
        total = [
            a + sign * Decimal(b) for a, b in zip(total, amounts or ["0"] * spans, strict=True)
        ]
    return total
