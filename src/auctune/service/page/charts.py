"""Data of the page's charts, from responses of the API."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from itertools import accumulate
from typing import Any

from auctune.pages import money
from auctune.service.charts.renderer import ChartSpec
from auctune.service.page.templates import name_of, short_id
from auctune.service.zones.core.sections import MAX_CHART_SLOTS

Shown = Mapping[str, Any]

_MAX_PLANS = 60
_MAX_CURVES = 12
_UNITS = ((2 * 86_400, 86_400, "days"), (2 * 3600, 3600, "hours"), (180, 60, "minutes"))


def job_names(shown: Iterable[Shown]) -> dict[str, str]:
    """Return the names of jobs by id, each different: a name of several is followed by its id.

    Args:
        shown: operators' views of jobs.
    """
    names = {one["job"]: name_of(one) for one in shown}
    often = Counter(names.values())
    return {
        job: f"{name} ({short_id(job)})" if often[name] > 1 else name for job, name in names.items()
    }


def plan_of_zone(plans: Sequence[Shown], zone: Shown, nodes: Sequence[str]) -> ChartSpec | None:
    """Return the plans of all open jobs on some nodes, or None without any."""
    slots, names = zone["slots"], job_names(plans)
    found = (_row(one, names[one["job"]], zone) for one in plans)
    rows = [row for row in found if row is not None]
    rows.sort(key=lambda row: (row["arrival"], row["cells"][0][0]))
    if not rows:
        return None
    times = {"start": _begins(zone), "seconds": zone["slot_seconds"]}
    text = f"Gantt chart of {min(len(rows), _MAX_PLANS)} jobs over {slots} slots"
    data = {"rows": rows[:_MAX_PLANS], "nodes": list(nodes), "slots": slots, "times": times}
    return ChartSpec("plan", data, text)


def _begins(zone: Shown) -> float:
    """Return the unix time at which a zone's current slot began."""
    return float(zone["slot_ends_at"] - zone["slot_seconds"])


def _row(plan: Shown, name: str, zone: Shown) -> dict[str, Any] | None:
    if not plan["plan"]:
        return None
    first, slots = zone["slot"], zone["slots"]
    cells = [
        [cell["slot"] - first, cell["node"]]
        for cell in plan["plan"]["cells"]
        if first <= cell["slot"] < first + slots
    ]
    if not cells:
        return None
    created = (plan["created_at"] - _begins(zone)) / zone["slot_seconds"]
    arrival = min(max(0, math.floor(created)), cells[0][0])
    return {"task": name, "arrival": arrival, "deadline": cells[-1][0], "cells": cells}


def plan_of_job(job: Shown, zone: Shown) -> ChartSpec | None:
    """Return a job's plan from its first slot to its deadline, or None if it has no plan."""
    plan, deadline = job["market"].get("plan"), job["market"].get("deadline")
    if not plan or not plan["cells"]:
        return None
    seconds, epoch = zone["slot_seconds"], _epoch(zone)
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
    times = {"start": plan["start"], "seconds": seconds}
    data = {"rows": [row], "nodes": nodes, "slots": last - first + 1, "times": times}
    return ChartSpec("plan", data, text)


def _epoch(zone: Shown) -> float:
    """Return the unix time at which a zone's slot 0 begins."""
    return _begins(zone) - float(zone["slot"] * zone["slot_seconds"])


def losses_of(job: Shown, metrics: Sequence[Shown]) -> ChartSpec | None:
    """Return a job's losses by trained rows, or None before there are two.

    `metrics` are the data of its training events, oldest first.
    """
    curves: dict[str, list[list[float]]] = {"train_loss": [], "valid_loss": []}
    for one in metrics:
        rows_per_step = one["rows"] / max(1, one["step"])
        for step in one["steps"]:
            for name, curve in curves.items():
                if step[name] is not None:
                    curve.append([round(step["step"] * rows_per_step), step[name]])
    training, validation = curves.values()
    finite = [loss for _, loss in (*training, *validation)]
    if len(finite) < 2:
        return None
    text = f"Loss curve: from {finite[0]:.3g} to {finite[-1]:.3g}"
    data = {
        "task": name_of(job),
        "training": training,
        "validation": validation,
        "threshold": (job["market"].get("target") or {}).get("target_loss"),
    }
    return ChartSpec("losses", {"curves": [data]}, text)


def menu_of(quote: Shown) -> ChartSpec | None:
    """Return the prices of a quote by finish time, or None if it has fewer than two."""
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
    return ChartSpec("menu", {"points": points}, f"{text} to {points[-1]['price']:g} for the last")


def money_over_time(history: Shown, decided: Iterable[Shown]) -> ChartSpec | None:
    """Return cumulative welfare, revenue and costs, or None if all are zero."""
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
    unit, name = _time_unit(length)
    at = [((n + 1) * step - length) / unit for n in range(spans)]
    series = {
        "welfare": _cumulative(welfare),
        "revenue": _cumulative(revenue),
        "costs": _cumulative(costs),
    }
    curves = [{"name": one, "x": at, "y": values} for one, values in series.items()]
    panel = {"title": "", "quantity": "money", "curves": curves}
    ends = ", ".join(f"{one} {values[-1]:,.2f}" for one, values in series.items())
    text = f"So far in this time: {ends}"
    return ChartSpec("over-time", {"panels": [panel], "x_title": f"{name} from now"}, text)


def _welfare(decided: Shown) -> float:
    """Return a job's contribution to welfare.

    For a bid: its value less its costs, as of the decision. For a metered job with a value: the
    value when it was done less its cost. 0 for all others.
    """
    if decided["refunded"]:
        return 0.0
    metered = decided["metered"]
    if metered is not None and metered["value"] is not None:
        return float(Decimal(metered["value"]) - Decimal(metered["cost"]))
    return decided.get("value") or 0.0


def _time_unit(seconds: float) -> tuple[int, str]:
    """Return length and name of the unit in which to show a duration."""
    return next(((unit, name) for least, unit, name in _UNITS if seconds >= least), (1, "seconds"))


def _cumulative(amounts: Iterable[float | Decimal]) -> list[float]:
    return list(accumulate(float(amount) for amount in amounts))


def _summed(series: Iterable[Sequence[str]], spans: int, sign: int) -> list[Decimal]:
    total = [Decimal(0)] * spans
    for amounts in series:
        total = [
            a + sign * Decimal(b) for a, b in zip(total, amounts or ["0"] * spans, strict=True)
        ]
    return total


def spread_of(quote: Shown, deadline: float | None) -> ChartSpec:
    """Return the expected and p90 cost and duration of an estimate, with their limits."""
    estimate, start = quote["estimate"], quote["created_at"]
    scale, unit = _time_unit(max(estimate["finish_p90"], deadline or 0.0) - start)
    cost = {
        "title": "cost",
        "expected": float(estimate["expected_cost"]),
        "p90": float(estimate["p90_cost"]),
        "limit": None if estimate["cap"] is None else float(estimate["cap"]),
        "limit_name": "cap",
    }
    time = {
        "title": f"{unit} from the quote until it is done",
        "expected": (estimate["finish"] - start) / scale,
        "p90": (estimate["finish_p90"] - start) / scale,
        "limit": None if deadline is None else (deadline - start) / scale,
        "limit_name": "deadline",
    }
    text = (
        f"Cost {money(estimate['expected_cost'])} expected, {money(estimate['p90_cost'])} at most"
        f" in 9 of 10 cases; done in {time['expected']:.1f} {unit} expected,"
        f" {time['p90']:.1f} in 9 of 10"
    )
    return ChartSpec("spread", {"spreads": [cost, time]}, text)


def choices_of(alternatives: Sequence[Shown], chosen: str, start: float) -> ChartSpec | None:
    """Return cost and finish time in each zone, or None if fewer than two can take the job."""
    able = [one for one in alternatives if one["cost"] is not None]
    if len(able) < 2:
        return None
    points = [
        {
            "name": one["zone"],
            "seconds": max(0.0, one["finish"] - start),
            "cost": float(one["cost"]),
            "is_chosen": one["zone"] == chosen,
            "label": f"{one['zone']} ({one['kind']}): {money(one['cost'])}, risk {one['risk']:.0%}",
        }
        for one in able
    ]
    words = ", ".join(f"{one['zone']} {money(one['cost'])}" for one in able)
    return ChartSpec("choices", {"points": points}, f"Cost by finish time of each zone: {words}")


def metered_of(job: Shown, events: Sequence[Shown], zone: Shown | None) -> ChartSpec | None:
    """Return a job's cost and its instances or share by slot, or None before the first charge.

    The events are newest first.
    """
    metered = job["market"]["metered"]
    if zone is None:
        return None
    charges = [one["data"] for one in reversed(events) if (one["data"] or {}).get("amount")]
    if metered is None or not charges:
        return None
    charges = charges[-MAX_CHART_SLOTS:]
    is_share = "share" in charges[0]
    at = [one["unit"] if is_share else one["at"] for one in charges]
    # The oldest charges of a long job are not shown, but their cost counts.
    amounts = [Decimal(one["amount"]) for one in charges]
    before = Decimal(metered["cost"]) - sum(amounts)
    costs = [float(before + cost) for cost in accumulate(amounts)]
    slots = [
        {"slot": slot - at[0], "amounts": _allocation(one, is_share=is_share)}
        for slot, one in zip(at, charges, strict=True)
    ]
    cap = metered["max_cost"]
    text = f"Cost so far {money(metered['cost'])} of a cap of {money(cap)}, in {len(charges)} slots"
    data = {
        "costs": [[slot - at[0], cost] for slot, cost in zip(at, costs, strict=True)],
        "cap": float(cap),
        "slots": slots,
        "times": {
            "start": _epoch(zone) + at[0] * zone["slot_seconds"],
            "seconds": zone["slot_seconds"],
        },
        "had_title": "share of the pool" if is_share else "instances",
        "is_share": is_share,
    }
    return ChartSpec("metered", data, text)


def _allocation(charge: Shown, *, is_share: bool) -> dict[str, float]:
    if is_share:
        return {"share": charge["share"]}
    return {"on demand": charge["on_demand"], "spot": charge["spot"]}


def targets_of(decisions: Sequence[Shown], names: Mapping[str, str]) -> ChartSpec | None:
    """Return loss curves and their targets, or None before the first curve.

    `names` are those of jobs by id.
    """
    curves = [
        {
            "task": names[one["job"]],
            "training": one["target"]["curve"],
            "threshold": one["target"]["target_loss"],
        }
        for one in decisions
        if one["target"] is not None and len(one["target"]["curve"]) > 1
    ][:_MAX_CURVES]
    if not curves:
        return None
    return ChartSpec(
        "targets", {"curves": curves}, f"Loss curves of {len(curves)} jobs, by batches"
    )
