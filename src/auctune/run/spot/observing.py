"""What a policy is shown of a slot."""

from dataclasses import replace

from auctune.run.spot.parts import Parts
from auctune.run.spot.state import SpotRunState
from auctune.spot.policy import SpotObservation


def observe(
    parts: Parts, state: SpotRunState, slot: int, now: float, progress: float
) -> SpotObservation:
    """Market and job at a moment of a slot that begins, with the forecast that is made of them.

    Args:
        parts: of the run.
        state: of the run, up to the slot before.
        slot: its number.
        now: when the market is looked at.
        progress: work done by then.
    """
    offer = parts.provider.offer(now)
    before = state.slots[-1].observation.available if slot else offer.available
    seen = SpotObservation(
        slot=slot,
        price=offer.price,
        available=offer.available,
        available_before=before,
        on_demand_price=offer.on_demand_price,
        progress=progress,
        cost=state.slot_cost,
        last=state.last_before(slot),
        forecast=None,
    )
    forecast = parts.foresee([record.observation for record in state.slots], seen)
    return replace(seen, forecast=forecast)
