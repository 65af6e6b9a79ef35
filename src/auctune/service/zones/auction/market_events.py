"""Between a zone's events and those that its mechanism knows."""

from typing import Any

from auctune.domain import (
    Event,
    NodeLost,
    NodeReturned,
    Offered,
    PricesLearned,
    Released,
    Replanned,
    SlotAdvanced,
)
from auctune.run.records import read_decision
from auctune.service.zones.auction.event import AuctionKind
from auctune.service.zones.auction.open_job import read_cells
from auctune.service.zones.auction.prices_record import prices_record, read_prices
from auctune.service.zones.auction.records import read_task
from auctune.service.zones.auction.state import ZoneState
from auctune.service.zones.event import Kind, ZoneEvent


def market_kind(event: Event) -> Kind | AuctionKind:
    """What the log calls an event that the mechanism told of by itself."""
    return Kind.SLOT_BEGAN if isinstance(event, SlotAdvanced) else AuctionKind.PRICES_LEARNED


def market_record(event: Event) -> dict[str, Any]:
    """The body of such an event."""
    if isinstance(event, SlotAdvanced):
        energy = {name: list(costs) for name, costs in event.energy_cost.items()}
        return {"slot": event.now, "energy_cost": energy}
    assert isinstance(event, PricesLearned)
    return prices_record(event)


def to_market(event: ZoneEvent, state: ZoneState) -> Event | None:
    """What an event means to the mechanism; none: nothing.

    Args:
        event: from the log.
        state: as it was before the event.
    """
    body = event.body
    match event.kind:
        case Kind.SLOT_BEGAN:
            costs = {name: tuple(row) for name, row in body["energy_cost"].items()}
            return SlotAdvanced(body["slot"], costs)
        case AuctionKind.PRICES_LEARNED:
            return read_prices(body)
        case Kind.DECIDED:
            return Offered(read_task(body["task"]), read_decision(body["decision"]), event.slot)
        case AuctionKind.RELEASED | Kind.PAUSED | AuctionKind.REPLANNED | Kind.RESUMED:
            assert event.job is not None
            task = state.jobs[event.job].task
            given_up, found = read_cells(body["given_up"]), read_cells(body["found"])
            if not found:
                return Released(task, given_up)
            return Replanned(task, event.slot, given_up, found, refunded=False)
        case AuctionKind.NODE_LOST if body["node"] not in state.lost:
            return NodeLost(body["node"], event.slot)
        case AuctionKind.NODE_RETURNED:
            return NodeReturned(body["node"], event.slot)
    return None
