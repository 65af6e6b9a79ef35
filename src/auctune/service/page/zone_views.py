"""Pages for operators: the market as a whole, and each zone."""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from markupsafe import Markup
from starlette.responses import Response

from auctune.domain.job_words import loss_text, state_word
from auctune.pages import NOTHING, percent
from auctune.service.charts.renderer import ChartSpec
from auctune.service.fair_queue import in_thread
from auctune.service.http.routes import decisions, ledger, zones
from auctune.service.http.serializers import JSON
from auctune.service.page.auth import PageRequest
from auctune.service.page.charts import (
    job_names,
    market_of,
    money_over_time,
    plan_of_zone,
    shares_of,
    sites_of,
    targets_of,
    zone_maps,
)
from auctune.service.page.filters import moment, paid
from auctune.service.page.templates import render
from auctune.service.service import Service

_HOURS = {"1": 1.0, "24": 24.0, "168": 168.0, "720": 720.0}
_MAX_BIDS, _PAGE = 1000, 100


async def market_page(visit: PageRequest) -> Response:
    """Show all zones, accounts and the history of the market."""
    service, who = visit.service, visit.who
    hours = visit.query("hours")
    hours = hours if hours in _HOURS else "24"
    listed = (await zones.list_zones(service, who))["data"]
    history = await ledger.history(service, who, _HOURS[hours])
    decided: list[JSON] = []
    is_cut = False
    for zone in listed:
        bids, has_more = await _newest_bids(service, zone["id"])
        decided += bids
        is_cut |= has_more and bids[-1]["created_at"] > history["since"]
    figure = money_over_time(history, decided)
    accounts = (await ledger.balances(service, who))["accounts"]
    return render(
        visit,
        "market.html",
        zones=listed,
        chart=await visit.draw(figure),
        text="" if figure is None else figure.text,
        hours=hours,
        spans={"1": "an hour", "24": "a day", "168": "a week", "720": "30 days"},
        is_cut=is_cut,
        most=_MAX_BIDS,
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
    """Show a zone."""
    service, who, name = visit.service, visit.who, visit.param("zone_id")
    zone = await zones.retrieve_zone(service, who, name)
    after = visit.after("job")
    decided = await in_thread(decisions.read_bids, service, name, 50, after)
    state = await zones.state(service, who, name)
    shown: JSON = {
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
            shown["parts"] = await site_parts(visit, state, decided["data"])
    return render(
        visit,
        "zone.html",
        zone=zone,
        decisions=decided["data"],
        more=decided["has_more"],
        totals=totals_of(decided["data"]),
        now=service.now(),
        **shown,
    )


async def _nodes(visit: PageRequest, name: str, prices: JSON) -> JSON:
    plans, _ = await _newest_bids(visit.service, name, decisions.ADMITTED)
    plan = plan_of_zone(plans, prices)
    return {
        "prices": prices,
        "maps": {key: await visit.draw(figure) for key, figure in zone_maps(prices).items()},
        "plan": await visit.draw(plan),
        "plans": plans,
    }


async def _newest_bids(
    service: Service, zone: str, statuses: tuple[str, ...] | None = None
) -> tuple[list[JSON], bool]:
    """Return the newest bids of a zone, at most `_MAX_BIDS`, and whether there are more.

    Users take turns after each page.
    """
    found: list[JSON] = []
    after, has_more = None, True
    while has_more and len(found) < _MAX_BIDS:
        limit = min(_PAGE, _MAX_BIDS - len(found))
        page = await in_thread(decisions.read_bids, service, zone, limit, after, statuses)
        found += page["data"]
        after, has_more = found[-1]["job"] if found else None, page["has_more"]
    return found, has_more


def totals_of(decided: list[JSON]) -> JSON:
    """Return counts of bids by outcome, and payments less refunds."""
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


@dataclass(frozen=True, slots=True)
class ChartSection:
    """Section of a zone's page: a chart as HTML, or None without data, and its table."""

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
    chart = await visit.draw(figure)
    return ChartSection(
        title, caption, chart, "" if figure is None else figure.text, heads, tuple(rows)
    )


async def spot_parts(visit: PageRequest, state: JSON) -> list[ChartSection]:
    """Return the section of a zone that rents: its spot market and instances."""
    rows = (
        (
            one["slot"],
            moment(one["begins_at"]),
            f"{one['price'] * state['unit_price']:.4g}",
            *(one[key] for key in ("available", "on_demand", "spot")),
        )
        for one in reversed(state["slots"])
    )
    caption = "Price of a spot instance for a slot (dashed: on demand), available instances, and "
    part = await _part(
        visit,
        "Spot market and holdings",
        f"{caption}those held by all jobs.",
        market_of(state),
        ("slot", "begins", "spot price", "available", "on demand held", "spot held"),
        rows,
    )
    return [part]


async def pool_parts(visit: PageRequest, state: JSON, decided: list[JSON]) -> list[ChartSection]:
    """Return the sections of a pool: shares and loss curves of its jobs."""
    shares = (job for unit in state["units"] for job in unit["shares"])
    names = job_names(decided, (*shares, *(one["job"] for one in state["jobs"])))
    rows = (
        (
            names[one["job"]],
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
        for one in state["jobs"]
    )
    heads = ("job", "user", "state", "best loss", "target", "share", "deadline", "forecast")
    caption = "Share of each job by slot."
    return [
        await _part(visit, "Shares of the pool", caption, shares_of(state, names), heads, rows),
        await _part(
            visit,
            "Loss curves and targets",
            "Loss by batches of the newest jobs. Dashed: the loss to reach.",
            targets_of(decided, job_names(decided)),
        ),
    ]


async def site_parts(visit: PageRequest, state: JSON, decided: list[JSON]) -> list[ChartSection]:
    """Return the sections of an edge zone: use and prices of its sites."""
    price, used = sites_of(state)
    names = job_names(decided, (one["job"] for one in state["jobs"]))
    rows = (
        (
            site["id"],
            site["state"],
            ", ".join(f"{amount:g} {unit}" for unit, amount in site["capacity"].items()),
        )
        for site in state["sites"]
    )
    jobs = (
        (
            names[one["job"]],
            one["user"],
            state_word(one["state"]),
            f"{len(one['trained'])} of {len(one['slots'])}",
            one["failed_slots"],
        )
        for one in state["jobs"]
    )
    caption = "By site and time, from the current slot on."
    return [
        await _part(
            visit,
            "Sites in use",
            f"Share of each site's units. {caption}",
            used,
            ("job", "user", "state", "slots trained", "failed slots"),
            jobs,
        ),
        await _part(
            visit,
            "Prices at sites",
            f"Per unit. {caption}",
            price,
            ("site", "state", "capacity"),
            rows,
        ),
    ]
