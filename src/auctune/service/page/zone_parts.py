"""For operators: what there is to see of zones without nodes of their own, by what they have."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from auctune.domain.job_words import loss_text, state_word
from auctune.service.http.routes import zones
from auctune.service.page.chart_client import Figure
from auctune.service.page.guard import Visit
from auctune.service.page.metered_figures import market_of, shares_of, sites_of, targets_of
from auctune.service.page.words import NOTHING, moment, percent, short_id

Shown = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Part:
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
    visit: Visit,
    title: str,
    caption: str,
    figure: Figure | None,
    heads: tuple[str, ...] = (),
    rows: Iterable[tuple[Any, ...]] = (),
) -> Part:
    chart = None if figure is None else await visit.context.charts.draw(figure)
    return Part(title, caption, chart, "" if figure is None else figure.text, heads, tuple(rows))


async def rented_parts(visit: Visit, name: str) -> list[Part]:
    """The market of a zone that rents, and what it holds."""
    found = await zones.spot_market(visit.service, visit.who, name)
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


async def pool_parts(visit: Visit, name: str, decided: list[Shown]) -> list[Part]:
    """How a pool was shared, and how far its jobs are."""
    found = await zones.pool_shares(visit.service, visit.who, name)
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


async def site_parts(visit: Visit, name: str) -> list[Part]:
    """Sites, what of them is sold, and at what price."""
    found = await zones.sites(visit.service, visit.who, name)
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
