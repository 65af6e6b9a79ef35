"""Observations with what a test does not care about filled in."""

from auctune.spot import IDLE, SpotAllocation, SpotObservation
from auctune.spot.forecasts import Forecast


def seen(
    slot: int = 1,
    *,
    price: float = 0.5,
    available: int = 8,
    available_before: int = 8,
    on_demand_price: float = 1.0,
    progress: float = 0.0,
    cost: float = 0.0,
    last: SpotAllocation = IDLE,
    forecast: Forecast | None = None,
) -> SpotObservation:
    return SpotObservation(
        slot=slot,
        price=price,
        available=available,
        available_before=available_before,
        on_demand_price=on_demand_price,
        progress=progress,
        cost=cost,
        last=last,
        forecast=forecast,
    )
