"""Events of the mechanism as events of the zone, and back, bit for bit.

An array is its bytes, compressed, in base 64: numbers as text would take three times the room, and
nobody reads them.
"""

import base64
import zlib
from typing import Any

import numpy as np

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
from auctune.service.zones.auction.job import AuctionEventType, read_cells, read_task
from auctune.service.zones.auction.state import AuctionState
from auctune.service.zones.core.events import EventType, ZoneEvent


def prices_record(event: PricesLearned) -> dict[str, Any]:
    """The body of the event."""
    return {
        "slot": event.now,
        "lesson": {name: _write(array) for name, array in event.lesson.items()},
    }


def read_prices(body: dict[str, Any]) -> PricesLearned:
    """The event that `prices_record` wrote."""
    return PricesLearned(
        body["slot"], {name: _read(record) for name, record in body["lesson"].items()}
    )


def _write(array: Any) -> dict[str, Any]:
    packed = zlib.compress(np.ascontiguousarray(array).tobytes(), level=1)
    return {
        "dtype": array.dtype.str,
        "shape": list(array.shape),
        "data": base64.b64encode(packed).decode(),
    }


def _read(record: dict[str, Any]) -> Any:
    data = zlib.decompress(base64.b64decode(record["data"]))
    # A copy, as what is read from bytes cannot be written to.
    return np.frombuffer(data, dtype=record["dtype"]).reshape(record["shape"]).copy()


# Conversion between events of the zone and of its mechanism.


def event_type_of(event: Event) -> EventType | AuctionEventType:
    """What the log calls an event that the mechanism told of by itself."""
    return (
        EventType.SLOT_BEGAN if isinstance(event, SlotAdvanced) else AuctionEventType.PRICES_LEARNED
    )


def market_record(event: Event) -> dict[str, Any]:
    """The body of such an event."""
    if isinstance(event, SlotAdvanced):
        energy = {name: list(costs) for name, costs in event.energy_cost.items()}
        return {"slot": event.now, "energy_cost": energy}
    assert isinstance(event, PricesLearned)
    return prices_record(event)


def to_mechanism_event(event: ZoneEvent, state: AuctionState) -> Event | None:
    """What an event means to the mechanism; none: nothing.

    Args:
        event: from the log.
        state: as it was before the event.
    """
    body = event.body
    match event.kind:
        case EventType.SLOT_BEGAN:
            costs = {name: tuple(row) for name, row in body["energy_cost"].items()}
            return SlotAdvanced(body["slot"], costs)
        case AuctionEventType.PRICES_LEARNED:
            return read_prices(body)
        case EventType.DECIDED:
            return Offered(read_task(body["task"]), read_decision(body["decision"]), event.slot)
        case (
            AuctionEventType.RELEASED
            | EventType.PAUSED
            | AuctionEventType.REPLANNED
            | EventType.RESUMED
        ):
            assert event.job is not None
            task = state.jobs[event.job].task
            given_up, found = read_cells(body["given_up"]), read_cells(body["found"])
            if not found:
                return Released(task, given_up)
            return Replanned(task, event.slot, given_up, found, refunded=False)
        case AuctionEventType.NODE_LOST if body["node"] not in state.lost:
            return NodeLost(body["node"], event.slot)
        case AuctionEventType.NODE_RETURNED:
            return NodeReturned(body["node"], event.slot)
    return None
