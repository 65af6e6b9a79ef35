"""What a policy sees when a slot begins."""

from dataclasses import dataclass

from auctune.spot.allocation import SpotAllocation
from auctune.spot.forecasts.forecast import Forecast


@dataclass(frozen=True, slots=True)
class SpotObservation:
    """The market and the job at the beginning of a slot.

    Attributes:
        slot: t, slots since the job began.
        price: p_t, of a spot GPU in this slot.
        available: A_t, spot GPUs in this slot.
        available_before: A_{t-1}; A_t itself in slot 0.
        on_demand_price: p_o.
        progress: Z, work done so far.
        cost: spent so far.
        last: what was held in the slot before; nothing in slot 0.
        forecast: of the slots t + 1, t + 2, ...; none where nobody forecasts.
    """

    slot: int
    price: float
    available: int
    available_before: int
    on_demand_price: float
    progress: float
    cost: float
    last: SpotAllocation
    forecast: Forecast | None
