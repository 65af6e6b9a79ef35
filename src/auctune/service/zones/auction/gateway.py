"""Request side of an auction zone, and an operator's access to its nodes."""

from functools import partial
from typing import Any

from auctune.domain import Money, PriceMenu
from auctune.domain.decision import MenuLine
from auctune.service.config.zone import AUCTION
from auctune.service.datasets.repairer import DatasetQuote
from auctune.service.jobs.request import JobRequest
from auctune.service.jobs.terms import Terms
from auctune.service.jobs.training import Submission
from auctune.service.storage.queries import JobReadModel
from auctune.service.zones.auction.zone import AuctionZone, Bid, Supply
from auctune.service.zones.core.gateway import GatewayContext, MenuGateway
from auctune.service.zones.core.menu import OfferLine
from auctune.service.zones.core.sections import (
    JobName,
    NodeState,
    ZoneView,
    price_section,
    with_state,
)
from auctune.service.zones.core.snapshots import Explainer


class AuctionGateway(MenuGateway[AuctionZone, Bid, DatasetQuote, MenuLine]):
    """Gateway of an auction zone."""

    kind = AUCTION
    # A value counts as a bid, and a cap on the cost limits the bid.
    terms = Terms(unsupported=("market.target_loss", "market.sites"))

    def __init__(
        self,
        context: GatewayContext[AuctionZone, DatasetQuote],
        supply: Supply,
        explainer: Explainer[Any],
        *,
        has_vendors: bool,
    ) -> None:
        super().__init__(context, supply.base, len(supply.cluster.nodes), explainer)
        self._has_vendors = has_vendors
        self.nodes = tuple(node.id for node in supply.cluster.nodes)

    def unsupported_reason(self, request: JobRequest) -> str | None:
        if request.market.repair and not self._has_vendors:
            return super().unsupported_reason(request) or "has no vendor that could repair data"
        return super().unsupported_reason(request)

    async def drain(self, node: str) -> None:
        await self.actor.call(lambda zone: zone.drain_node(node, "drained by an operator"))

    async def return_node(self, node: str) -> None:
        await self.actor.call(lambda zone: zone.return_node(node))

    async def _bid(self, submission: Submission, data: DatasetQuote) -> Bid:
        return Bid(
            **self._bid_fields(submission),
            size=data.size,
            bid=Money(submission.record["bid"]),
            deadline=submission.record["deadline"],
            offers=data.offers,
        )

    async def _menu(
        self, bid: Bid, *, may_be_empty: bool = False
    ) -> tuple[OfferLine[MenuLine], ...]:
        def quote(zone: AuctionZone) -> PriceMenu:
            if may_be_empty and not zone.has_slot_before(bid.deadline):
                return PriceMenu(bid.job, ())
            return zone.quote(bid)

        async with self._quoting.place(bid.owner):
            menu = await self.actor.call(quote)
        return tuple(map(offer_line, menu.lines))

    def _accept(self, zone: AuctionZone, bid: Bid, plan: MenuLine) -> JobReadModel | None:
        return zone.accept(bid, plan)

    def _view(self, zone: AuctionZone, job_name: JobName) -> ZoneView:
        zone.begin_slots()
        state = zone.mechanism.state()
        lost, drained = zone.state.lost, zone.state.drained
        nodes = tuple(
            NodeState(
                node.id,
                node.type,
                "drained" if node.id in drained else "lost" if node.id in lost else "up",
                float(state.compute_used[0, index]),
            )
            for index, node in enumerate(zone.supply.cluster.nodes)
        )
        section = partial(
            price_section,
            names=[with_state(node.id, node.state) for node in nodes],
            first_slot=state.first_slot,
            clock=zone.clock,
        )
        compute = section(
            "Compute",
            "Price per sample, and share of each node's capacity in use.",
            "compute",
            price=state.compute_price.tolist(),
            used=state.compute_used.tolist(),
        )
        memory = section(
            "Memory",
            "Price per GB and slot, and share in use of what the base model leaves free.",
            "memory",
            price=state.memory_price.tolist(),
            used=state.memory_used.tolist(),
        )
        return ZoneView((compute, memory), nodes)


def offer_line(line: MenuLine) -> OfferLine[MenuLine]:
    """Return the line of an offer for a line of the mechanism's menu."""
    plan = line.schedule
    cells = len(plan.cells)
    return OfferLine(line, line.price, plan.start, line.deadline, cells, cells, plan.vendor)
