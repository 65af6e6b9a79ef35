"""Pages for operators: the market as a whole, and each zone."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from markupsafe import Markup
from starlette.responses import RedirectResponse, Response

from auctune.domain.job_words import loss_text, state_word
from auctune.service.http.routes import decisions, ledger, zones
from auctune.service.page.auth import ROOT, PageRequest
from auctune.service.page.chart_renderer import ChartSpec
from auctune.service.page.charts import (
    market_of,
    money_over_time,
    plan_of_zone,
    shares_of,
    sites_of,
    targets_of,
    zone_maps,
)
from auctune.service.page.filters import NOTHING, moment, paid, percent, short_id
from auctune.service.page.templates import render

_HOURS = {"1": 1.0, "24": 24.0, "168": 168.0, "720": 720.0}
_MOST = 1000
Shown = dict[str, Any]


async def market_page(visit: PageRequest) -> Response:
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
    return render(
        visit,
        "market.html",
        zones=listed,
        chart=None if figure is None else await visit.service.charts.draw(figure),
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


async def zone_page(visit: PageRequest) -> Response:
    """One zone."""
    service, who, name = visit.service, visit.who, visit.param("zone_id")
    zone = await zones.retrieve_zone(service, who, name)
    after = visit.after("job")
    decided = await decisions.decisions(service, who, name, after, 50)
    state = await zones.state(service, who, name)
    shown: Shown = {
        # Jobs of metered zones have no bids.
        "is_metered": state["kind"] in ("spot", "timeshare"),
        "prices": None,
        "maps": {},
        "plan": None,
        "plans": [],
        "parts": [],
    }
    match state["kind"]:
        case "auction":
            shown |= await _nodes(visit, name, state)
        case "spot":
            shown["parts"] = await spot_parts(visit, state)
        case "timeshare":
            shown["parts"] = await pool_parts(visit, state, decided["data"])
        case "edge":
            shown["parts"] = await site_parts(visit, state)
    return render(
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


async def _nodes(visit: PageRequest, name: str, prices: Shown) -> Shown:
    plans = await decisions.plans(visit.service, visit.who, name)
    draw = visit.service.charts.draw
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


def zone_action(run: Callable[..., Awaitable[Any]]) -> Callable[[PageRequest], Awaitable[Response]]:
    """What an operator does with a zone: pause or resume it."""

    async def act(visit: PageRequest) -> Response:
        name = visit.param("zone_id")
        await run(visit.service, visit.who, name)
        return RedirectResponse(f"{ROOT}/zones/{name}", 303)

    return act


def node_action(run: Callable[..., Awaitable[Any]]) -> Callable[[PageRequest], Awaitable[Response]]:
    """What an operator does with a node: drain or return it."""

    async def act(visit: PageRequest) -> Response:
        zone = visit.param("zone_id")
        await run(visit.service, visit.who, zone, visit.param("node_id"))
        return RedirectResponse(f"{ROOT}/zones/{zone}#nodes", 303)

    return act


# Sections of zones without nodes: spot market, pool, sites.


@dataclass(frozen=True, slots=True)
class ChartSection:
    """A chart of a zone, with its words.

    Attributes:
        title, caption: above it.
        chart: as HTML; none: there is nothing to draw.
        text: what it shows.
        heads, rows: the same as a table.
    """

    title: str
    caption: str
    chart: Markup | None
    text: str
    heads: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()


async def _part(
    visit: PageRequest,
    title: str,
    caption: str,
    figure: ChartSpec | None,
    heads: tuple[str, ...] = (),
    rows: Iterable[tuple[Any, ...]] = (),
) -> ChartSection:
    chart = None if figure is None else await visit.service.charts.draw(figure)
    return ChartSection(
        title, caption, chart, "" if figure is None else figure.text, heads, tuple(rows)
    )


async def spot_parts(visit: PageRequest, found: Shown) -> list[ChartSection]:
    """The market of a zone that rents, and what it holds."""
    rows = (
        (
            one["slot"],
            moment(one["begins_at"]),
            f"{one['price'] * found['unit_price']:.4g}",
            *(one[key] for key in ("available", "on_demand", "spot")),
        )
        for one in reversed(found["slots"])
    )
    caption = "What a spot instance costs for a slot (dashed: one on demand), how many there are, "
    part = await _part(
        visit,
        "Spot market and holdings",
        f"{caption}and what all jobs hold. Slot 0 is the oldest that is shown.",
        market_of(found),
        ("slot", "begins", "spot price", "there", "on demand held", "spot held"),
        rows,
    )
    return [part]


async def pool_parts(visit: PageRequest, found: Shown, decided: list[Shown]) -> list[ChartSection]:
    """How a pool was shared, and how far its jobs are."""
    rows = (
        (
            short_id(one["job"]),
            one["user"],
            state_word(one["state"]),
            NOTHING
            if one["best_loss"] is None
            else loss_text(one["best_loss"], one["target_loss"]),
            f"{one['target_loss']:g}",
            percent(one["share"]),
            moment(one["deadline"]),
            one["verdict"] or NOTHING,
        )
        for one in found["jobs"]
    )
    heads = ("job", "user", "state", "best loss", "target", "share", "deadline", "forecast")
    caption = "Which job had which part of it, by slot. Slot 0 is the oldest that is shown."
    return [
        await _part(visit, "Shares of the pool", caption, shares_of(found), heads, rows),
        await _part(
            visit,
            "Loss curves and targets",
            "Loss by batches, of the newest jobs. Dashed: the loss to reach.",
            targets_of(decided),
        ),
    ]


async def site_parts(visit: PageRequest, found: Shown) -> list[ChartSection]:
    """Sites, what of them is sold, and at what price."""
    price, used = sites_of(found)
    rows = (
        (
            site["id"],
            site["state"],
            ", ".join(f"{amount:g} {unit}" for unit, amount in site["capacity"].items()),
        )
        for site in found["sites"]
    )
    jobs = (
        (
            short_id(one["job"]),
            one["user"],
            state_word(one["state"]),
            f"{len(one['trained'])} of {len(one['slots'])}",
            one["torn"],
        )
        for one in found["jobs"]
    )
    caption = "By site and slot; slot 0 is the current one."
    return [
        await _part(
            visit,
            "Sites in use",
            f"Share of each site's units. {caption}",
            used,
            ("job", "user", "state", "slots trained", "slots torn"),
            jobs,
        ),
        await _part(
            visit,
            "Prices at sites",
            f"Of a unit. {caption}",
            price,
            ("site", "state", "capacity"),
            rows,
        ),
    ]
