"""Request side of an edge zone: jobs that train where their data are, and why they were decided."""

import math
from collections.abc import Sequence
from typing import Any

from auctune.domain import Cell, Explanation, InputError, Money, PricedCell, PricedPlan, Schedule
from auctune.domain.data_size import job_notes
from auctune.domain.job_words import state_word
from auctune.edge import EdgeJob, EdgeMenu, EdgeMenuLine, Eris
from auctune.edge.explain import plan_costs
from auctune.service.accounts.registry import Principal
from auctune.service.config.zone import EDGE
from auctune.service.fair_queue import in_place
from auctune.service.jobs.quotes import NO_ALTERNATIVES, Alternatives
from auctune.service.jobs.request import JobRequest
from auctune.service.jobs.terms import Terms, request_record
from auctune.service.jobs.training import Submission, Training
from auctune.service.storage.event_log import ZoneEvent
from auctune.service.storage.queries import JobReadModel
from auctune.service.zones.core.gateway import GatewayContext, MenuGateway
from auctune.service.zones.core.menu import OfferLine
from auctune.service.zones.core.sections import (
    SLOT_COLUMNS,
    Column,
    JobName,
    Section,
    ZoneView,
    price_section,
    with_state,
)
from auctune.service.zones.core.snapshots import Explainer
from auctune.service.zones.edge.state import EdgeDecided, EdgeModel, SiteDatasets
from auctune.service.zones.edge.supply import EdgeBid, EdgeSupply, MenuRequest
from auctune.service.zones.edge.zone import EdgeZone


def explain(model: EdgeModel, decided: ZoneEvent) -> Explanation:
    """Explain a decision: the price of its plan, and of plans that finish earlier or later.

    Args:
        model: as it was just before the decision.
        decided: the `job.decided` event.
    """
    data = model.state.decode(decided)
    assert isinstance(data, EdgeDecided)
    eris, slot, last = model.mechanism, model.state.slot, data.deadline_slot
    job, answer = data.job, data.answer
    menu = eris.quote(job, slot).lines
    chosen = next((line for line in reversed(menu) if line.finish <= last), None)
    if answer.plan is not None:
        chosen = EdgeMenuLine(answer.plan.finish, answer.payment, answer.plan)
    finish = None if chosen is None else chosen.finish
    sooner = [line for line in menu if finish is not None and line.finish < finish]
    later = [line for line in menu if finish is not None and line.finish > finish]

    def priced(lines: Sequence[EdgeMenuLine]) -> PricedPlan | None:
        return _priced(eris, job, lines[0]) if lines else None

    return Explanation(
        task=job.id,
        chosen=None if chosen is None else _priced(eris, job, chosen),
        by_vendor={},
        by_node_type={},
        earlier=priced(sooner[-1:]),
        later=priced(later),
        earliest=priced(menu),
    )


def _priced(eris: Eris, job: EdgeJob, line: EdgeMenuLine) -> PricedPlan:
    """Price a plan: workers and servers as compute, transfers between sites as traffic."""
    cells = tuple(
        PricedCell(
            slot=part.slot,
            node=part.server,
            compute_price=0.0,
            memory_price=0.0,
            compute=cost.workers + cost.server,
            memory=0.0,
            operating_cost=0.0,
            traffic=cost.parameters + cost.chunks,
        )
        for part, cost in zip(line.plan.slots, plan_costs(eris, job, line.plan), strict=True)
    )
    return PricedPlan(
        schedule=Schedule(tuple(Cell(cell.slot, cell.node) for cell in cells)),
        cells=cells,
        vendor_price=0.0,
        operating_cost=0.0,
        compute=math.fsum(cell.compute for cell in cells),
        memory=0.0,
        price=line.price,
        traffic=math.fsum(cell.traffic for cell in cells),
    )


class EdgeGateway(MenuGateway[EdgeZone, EdgeBid, SiteDatasets, EdgeMenuLine]):
    """Gateway of an edge zone.

    Args:
        context: dependencies that all kinds share.
        supply: of the zone.
        explainer: of decisions.
    """

    kind = EDGE
    terms = Terms(
        required={"market.sites": "the files of sites: a zone of kind edge trains where data are"},
        unsupported=(
            "market.target_loss",
            "market.share",
            "market.repair",
            "market.lora.patience",
            "method.kto",
        ),
    )

    def __init__(
        self,
        context: GatewayContext[EdgeZone, SiteDatasets],
        supply: EdgeSupply,
        explainer: Explainer[Any],
    ) -> None:
        super().__init__(context, supply.entry.base, len(supply.market.sites), explainer)
        self.supply = supply

    def unsupported_reason(self, request: JobRequest) -> str | None:
        reason = super().unsupported_reason(request)
        if reason is not None or request.market.sites is None:
            return reason
        missing = set(request.market.sites) - set(self.supply.market.site_ids)
        return f"has no site {', '.join(sorted(missing))}" if missing else None

    def _notes(self, data: SiteDatasets, training: Training) -> tuple[str, ...]:
        return job_notes(
            data.size,
            epochs=training.epochs,
            max_length=training.max_length,
            target_modules=training.target_modules,
            in_each_slot=True,
        )

    def _priced_record(
        self,
        who: Principal,
        request: JobRequest,
        amount: Money | None,
        deadline: float,
        alternatives: Alternatives = NO_ALTERNATIVES,
    ) -> dict[str, Any]:
        requested, known = request.market.sites, self.supply.market.site_ids
        assert requested is not None
        for site in requested:
            if site not in known:
                found = f"{site!r} is not a site of this zone"
                raise InputError("market.sites", found, f"some of {', '.join(known)}")
        if request.training_file not in requested.values():
            found = f"{request.training_file!r} is not at a site"
            raise InputError("training_file", found, "one of the files of market.sites")
        # In the order of the zone's sites, by which chunks are numbered.
        sites = {site: requested[site] for site in known if site in requested}
        return {**request_record(request, who, amount, deadline, alternatives), "sites": sites}

    async def _bid(self, submission: Submission, data: SiteDatasets) -> EdgeBid:
        return EdgeBid(
            **self._bid_fields(submission),
            facts=data,
            bid=Money(submission.record["bid"]),
            deadline=submission.record["deadline"],
        )

    async def _menu(
        self, bid: EdgeBid, *, may_be_empty: bool = False
    ) -> tuple[OfferLine[EdgeMenuLine], ...]:
        def menu_request(zone: EdgeZone) -> MenuRequest | None:
            if may_be_empty and not zone.has_slot_before(bid.deadline):
                return None
            return zone.question(bid)

        # A menu takes a second or more, so it is computed from a copy off the actor's thread.
        async with self._quoting.place(bid.owner):
            request = await self.actor.call(menu_request)
            menu = EdgeMenu(bid.job, ())
            if request is not None:
                menu = await in_place(request.answer)
        return tuple(map(offer_line, menu.lines))

    def _accept(self, zone: EdgeZone, bid: EdgeBid, plan: EdgeMenuLine) -> JobReadModel | None:
        return zone.accept(bid, plan)

    def _view(self, zone: EdgeZone, job_name: JobName) -> ZoneView:
        zone.begin_slots()
        eris, clock, first = zone.eris, zone.clock, zone.state.slot
        market, ledger, prices = eris.market, eris.ledger, eris.prices(first)
        states = {one.id: "lost" if one.id in zone.state.lost else "up" for one in market.sites}
        has = ledger.capacity > 0
        devices = price_section(
            "Devices",
            "Price per device and slot, and share of each site's devices in use.",
            "site",
            [
                with_state(f"{site.id} {name}", states[site.id])
                for site in market.sites
                for name in market.types
                if site.capacity.get(name)
            ],
            prices.beta[:, has].tolist(),
            (ledger.used[:, has] / ledger.capacity[has]).tolist(),
            first,
            clock,
        )
        moved = zip(prices.alpha.tolist(), ledger.traffic.tolist(), strict=True)
        traffic = Section(
            "Traffic between sites",
            f"Price per MB, and MB of the {market.traffic_mb_per_slot:g} that a slot has.",
            (*SLOT_COLUMNS, Column("price", "number", 6), Column("traffic", "number", 1)),
            tuple((slot, clock.slot_start(slot), *row) for slot, row in enumerate(moved, first)),
        )
        sites = Section(
            "Sites",
            "Devices of each site.",
            tuple(map(Column, ("site", "state", "capacity"))),
            tuple(
                (
                    site.id,
                    states[site.id],
                    ", ".join(f"{amount:g} {name}" for name, amount in site.capacity.items()),
                )
                for site in market.sites
            ),
        )
        jobs = Section(
            "Jobs",
            "The jobs that train at sites.",
            (
                *map(Column, ("job", "user", "state", "slots trained")),
                Column("failed slots", "number"),
            ),
            tuple(
                (
                    job_name(job.id),
                    job.owner,
                    state_word(job.phase.value),
                    f"{len(job.trained)} of {len(job.plan.slots)}",
                    job.failed_slots,
                )
                for job in zone.state.jobs.values()
            ),
        )
        return ZoneView((devices, traffic, sites, jobs))


def offer_line(line: EdgeMenuLine) -> OfferLine[EdgeMenuLine]:
    """Return the line of an offer for a line of the mechanism's menu."""
    slots = line.plan.slots
    size = sum(1 + len(part.moves) for part in slots)
    return OfferLine(line, line.price, slots[0].slot, line.finish, len(slots), size)
