"""Pages for operators: the market as a whole, and each zone."""

from decimal import Decimal

from starlette.responses import Response

from auctune.service.fair_queue import in_thread
from auctune.service.http.routes import ledger, zones
from auctune.service.http.serializers import JSON
from auctune.service.page.auth import PageRequest
from auctune.service.page.charts import job_names, money_over_time, plan_of_zone, targets_of
from auctune.service.page.templates import paid, short_id
from auctune.service.service import Service
from auctune.service.zones.core.sections import Section

_HOURS = {"1": 1.0, "24": 24.0, "168": 168.0, "720": 720.0}
_MAX_BIDS, _PAGE = 1000, 100
_PLAN = (
    "Jobs by node and time, from the current slot on. Line: from the bid to the end of its plan."
)
_TARGETS = "Loss by batches of the newest jobs. Dashed: the loss to reach."


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
    return visit.render(
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
    """Show a zone of any kind."""
    service, who, name = visit.service, visit.who, visit.param("zone_id")
    zone = await zones.retrieve_zone(service, who, name)
    page = await in_thread(zones.read_bids, service, name, 50, visit.after("job"))
    decided = page["data"]
    names = job_names(decided)
    view = await zones.zone_of(service, name).inspect(lambda job: names.get(job) or short_id(job))
    sections, totals = [*view.sections], totals_of(decided)
    if view.nodes is not None:
        plans, _ = await _newest_bids(service, name, zones.ADMITTED)
        totals["open"] = len(plans)
        plan = plan_of_zone(plans, zone, [node.id for node in view.nodes])
        sections.insert(0, Section("Plan", _PLAN, charts=() if plan is None else (plan,)))
    if (targets := targets_of(decided, names)) is not None:
        sections.append(Section("Loss curves and targets", _TARGETS, charts=(targets,)))
    return visit.render(
        "zone.html",
        zone=zone,
        sections=[
            (section, [(await visit.draw(figure), figure.text) for figure in section.charts])
            for section in sections
        ],
        nodes=view.nodes,
        decisions=decided,
        more=page["has_more"],
        # Jobs of metered zones have no bids, and those of some zones no price.
        is_metered=any(one["metered"] for one in decided),
        has_prices=any(one["price"] for one in decided),
        totals=totals,
        now=service.now(),
    )


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
        page = await in_thread(zones.read_bids, service, zone, limit, after, statuses)
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
