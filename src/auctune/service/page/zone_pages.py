"""For operators: the market as a whole, and each zone with its prices, plan, nodes and bids."""

from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import Any

from starlette.responses import RedirectResponse, Response

from auctune.service.http.routes import decisions, ledger, zones
from auctune.service.page.figures import money_over_time, plan_of_zone, zone_maps
from auctune.service.page.guard import ROOT, Visit
from auctune.service.page.look import show
from auctune.service.page.words import paid
from auctune.service.page.zone_parts import pool_parts, rented_parts, site_parts

_HOURS = {"1": 1.0, "24": 24.0, "168": 168.0, "720": 720.0}
_MOST = 1000
Shown = dict[str, Any]


async def market_page(visit: Visit) -> Response:
    """All zones, and the money."""
    service, who = visit.service, visit.who
    hours = visit.query("hours")
    hours = hours if hours in _HOURS else "24"
    listed = (await zones.list_zones(service, who))["data"]
    history = await ledger.history(service, who, _HOURS[hours])
    decided: list[Shown] = []
    is_cut = False
    for zone in listed:
        page = await decisions.decisions(service, who, zone["id"], None, _MOST)
        decided += page["data"]
        oldest = page["data"][-1]["created_at"] if page["data"] else 0
        is_cut |= page["has_more"] and oldest > history["since"]
    figure = money_over_time(history, decided)
    accounts = (await ledger.balances(service, who))["accounts"]
    return show(
        visit,
        "market.html",
        zones=listed,
        chart=None if figure is None else await visit.context.charts.draw(figure),
        text="" if figure is None else figure.text,
        hours=hours,
        spans={"1": "an hour", "24": "a day", "168": "a week", "720": "30 days"},
        is_cut=is_cut,
        most=_MOST,
        totals=totals_of(decided),
        accounts={
            name: amount
            for name, amount in accounts.items()
            if not name.startswith(("user:", "hold:"))
        },
        owed=str(
            sum((Decimal(v) for k, v in accounts.items() if k.startswith("user:")), Decimal())
        ),
        vendors={
            name.removeprefix("vendor:"): amount
            for name, amount in accounts.items()
            if name.startswith("vendor:")
        },
    )


async def zone_page(visit: Visit) -> Response:
    """One zone."""
    service, who, name = visit.service, visit.who, visit.param("zone_id")
    zone = await zones.retrieve_zone(service, who, name)
    after = visit.after("job")
    decided = await decisions.decisions(service, who, name, after, 50)
    found = zones.zone_of(service, name)
    # Where use is metered nobody bids.
    is_metered = found.renting is not None or found.pool is not None
    shown: Shown = {
        "is_metered": is_metered,
        "prices": None,
        "maps": {},
        "plan": None,
        "plans": [],
        "parts": [],
    }
    # What there is to see is of the zone's kind.
    if found.nodes is not None:
        shown |= await _nodes(visit, name)
    if found.renting is not None:
        shown["parts"] += await rented_parts(visit, name)
    if found.pool is not None:
        shown["parts"] += await pool_parts(visit, name, decided["data"])
    if found.sites is not None:
        shown["parts"] += await site_parts(visit, name)
    return show(
        visit,
        "zone.html",
        zone=zone,
        zone_view=[(key, zone[key]) for key in zone if key not in _OWN_FIELDS],
        decisions=decided["data"],
        more=decided["has_more"],
        totals=totals_of(decided["data"]),
        now=service.now(),
        **shown,
    )


_OWN_FIELDS = frozenset(zones.ZoneResponse.model_fields)
"""Fields that the page shows in places of their own; others stand in a list."""


async def _nodes(visit: Visit, name: str) -> Shown:
    prices = await zones.prices(visit.service, visit.who, name)
    plans = await decisions.plans(visit.service, visit.who, name)
    draw = visit.context.charts.draw
    plan = plan_of_zone(plans["data"], prices)
    return {
        "prices": prices,
        "maps": {key: await draw(figure) for key, figure in zone_maps(prices).items()},
        "plan": None if plan is None else await draw(plan),
        "plans": plans["data"],
    }


def totals_of(decided: list[Shown]) -> Shown:
    """How many bids, what became of them, and what was paid and not given back."""
    admitted = [one for one in decided if one["decision"] == "admitted"]
    kept = [one for one in admitted if not one["refunded"]]
    return {
        "bids": len(decided),
        "admitted": len(admitted),
        "open": sum(one["status"] in ("queued", "running") for one in admitted),
        "done": sum(one["status"] == "succeeded" for one in admitted),
        "refunded": len(admitted) - len(kept),
        "paid": str(sum((Decimal(paid(one) or 0) for one in kept), Decimal())),
    }


def zone_action(run: Callable[..., Awaitable[Any]]) -> Callable[[Visit], Awaitable[Response]]:
    """What an operator does with a zone: pause or resume it."""

    async def act(visit: Visit) -> Response:
        name = visit.param("zone_id")
        await run(visit.service, visit.who, name)
        return RedirectResponse(f"{ROOT}/zones/{name}", 303)

    return act


def node_action(run: Callable[..., Awaitable[Any]]) -> Callable[[Visit], Awaitable[Response]]:
    """What an operator does with a node: drain or return it."""

    async def act(visit: Visit) -> Response:
        zone = visit.param("zone_id")
        await run(visit.service, visit.who, zone, visit.param("node_id"))
        return RedirectResponse(f"{ROOT}/zones/{zone}#nodes", 303)

    return act
