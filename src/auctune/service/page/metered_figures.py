"""Charts of zones without nodes: estimates, what zones said, costs, markets, pools, sites."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from itertools import accumulate
from typing import Any

from auctune.service.page.chart_client import Figure
from auctune.service.page.words import money, short_id

Shown = Mapping[str, Any]

_UNITS = ((2 * 86_400, 86_400, "days"), (2 * 3600, 3600, "hours"), (180, 60, "minutes"))
# Of the slots of a zone or a job, the newest.
_SLOTS = 120
_CURVES = 12


def spread_of(quote: Shown, deadline: float | None) -> Figure:
    """A quote's estimate: cost and time, as expected and in nine of ten cases, and their limits."""
    found, asked = quote["estimate"], quote["created_at"]
    last = max(found["finish_p90"], deadline or 0.0) - asked
    scale, unit = next(((s, name) for least, s, name in _UNITS if last >= least), (1, "seconds"))
    cost = {
        "title": "cost",
        "expected": float(found["expected_cost"]),
        "p90": float(found["p90_cost"]),
        "limit": None if found["cap"] is None else float(found["cap"]),
        "limit_name": "cap",
    }
    time = {
        "title": f"{unit} from the quote until it is done",
        "expected": (found["finish"] - asked) / scale,
        "p90": (found["finish_p90"] - asked) / scale,
        "limit": None if deadline is None else (deadline - asked) / scale,
        "limit_name": "deadline",
    }
    text = (
        f"Cost {money(found['expected_cost'])} expected, {money(found['p90_cost'])} at most in 9 of"
        f" 10 cases; done in {time['expected']:.1f} {unit} expected, {time['p90']:.1f} in 9 of 10"
    )
    return Figure("spread", {"spreads": [cost, time]}, text)


def choices_of(alternatives: Sequence[Shown], chosen: str, asked: float) -> Figure | None:
    """What zones would take by when; none: fewer than two can have the job."""
    able = [one for one in alternatives if one["cost"] is not None]
    if len(able) < 2:
        return None
    points = [
        {
            "name": one["zone"],
            "seconds": max(0.0, one["finish"] - asked),
            "cost": float(one["cost"]),
            "is_chosen": one["zone"] == chosen,
            "label": f"{one['zone']} ({one['kind']}): {money(one['cost'])}, risk {one['risk']:.0%}",
        }
        for one in able
    ]
    words = ", ".join(f"{one['zone']} {money(one['cost'])}" for one in able)
    return Figure("choices", {"points": points}, f"Cost by finish time of each zone: {words}")


def metered_of(job: Shown, events: Sequence[Shown]) -> Figure | None:
    """A job's cost so far by slot, and what it held or its share; none: it was charged nothing.

    Args:
        job: whose.
        events: of the job, newest first.
    """
    metered = job["market"]["metered"]
    told = [one["data"] for one in reversed(events) if (one["data"] or {}).get("amount")]
    if metered is None or not told:
        return None
    told = told[-_SLOTS:]
    is_share = "share" in told[0]
    at = [one["unit"] if is_share else one["at"] for one in told]
    # Of a very long job the oldest are left out; what they cost counts.
    amounts = [Decimal(one["amount"]) for one in told]
    before = Decimal(metered["cost"]) - sum(amounts)
    costs = [float(before + cost) for cost in accumulate(amounts)]
    slots = [
        {"slot": slot - at[0], "amounts": _had(one, is_share=is_share)}
        for slot, one in zip(at, told, strict=True)
    ]
    cap = metered["max_cost"]
    text = f"Cost so far {money(metered['cost'])} of a cap of {money(cap)}, in {len(told)} slots"
    data = {
        "costs": [[slot - at[0], cost] for slot, cost in zip(at, costs, strict=True)],
        "cap": float(cap),
        "slots": slots,
        "had_title": "share of the pool" if is_share else "instances",
        "is_share": is_share,
    }
    return Figure("metered", data, text)


def _had(told: Shown, *, is_share: bool) -> dict[str, float]:
    if is_share:
        return {"share": told["share"]}
    return {"on demand": told["on_demand"], "spot": told["spot"]}


def market_of(rented: Shown) -> Figure | None:
    """A spot market and what is held of it; none: no slot has begun."""
    shown = rented["slots"][-_SLOTS:]
    if not shown:
        return None
    first, unit = shown[0]["slot"], rented["unit_price"]
    slots = [
        {
            "slot": one["slot"] - first,
            "price": one["price"] * unit,
            "available": one["available"],
            "on_demand": one["on_demand"],
            "spot": one["spot"],
        }
        for one in shown
    ]
    now = shown[-1]
    text = (
        f"Market and holdings over {len(shown)} slots; in the newest a spot instance costs"
        f" {now['price'] * unit:.4g} for a slot, there are {now['available']}, and held are"
        f" {now['on_demand']} on demand and {now['spot']} spot"
    )
    return Figure("rented", {"slots": slots, "on_demand_price": unit}, text)


def shares_of(pool: Shown) -> Figure | None:
    """How a pool was shared; none: no unit has passed."""
    units = [one for one in pool["units"] if one["shares"]][-_SLOTS:]
    if not units:
        return None
    first = units[0]["unit"]
    slots = [
        {
            "slot": one["unit"] - first,
            "amounts": {short_id(job): share for job, share in one["shares"].items()},
        }
        for one in units
    ]
    last = ", ".join(f"{short_id(job)} {share:.0%}" for job, share in units[-1]["shares"].items())
    return Figure("shares", {"slots": slots}, f"Shares of the pool by slot; in the newest {last}")


def targets_of(decisions: Sequence[Shown]) -> Figure | None:
    """Loss curves against their targets; none: there is no curve yet."""
    curves = [
        {
            "task": short_id(one["job"]),
            "curve": one["target"]["curve"],
            "threshold": one["target"]["target_loss"],
        }
        for one in decisions
        if one["target"] is not None and len(one["target"]["curve"]) > 1
    ][:_CURVES]
    if not curves:
        return None
    return Figure("targets", {"curves": curves}, f"Loss curves of {len(curves)} jobs, by batches")


def sites_of(table: Shown) -> tuple[Figure, Figure]:
    """Prices, and use as shares, by site and slot."""
    units = [
        (place, kind, f"{site['id']} {name}", site["capacity"][name])
        for place, site in enumerate(table["sites"])
        for kind, name in enumerate(table["types"])
        if site["capacity"].get(name)
    ]
    names = [name for _, _, name, _ in units]
    prices = [[row[place][kind] for place, kind, _, _ in units] for row in table["price"]]
    used = [[row[place][kind] / whole for place, kind, _, whole in units] for row in table["used"]]
    where = f"{len(table['sites'])} sites and {len(prices)} slots"
    return (
        Figure("site-price", {"nodes": names, "values": prices}, f"Prices: {where}"),
        Figure("site-use", {"nodes": names, "values": used}, f"Use: {where}"),
    )
