"""What a zone's energy costs: constant, or by the hour of a market's prices."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from auctune.domain import EnergyForecast, InputError
from auctune.electricity import RepeatedPrices, read_prices, slot_costs
from auctune.service.config.auction import AuctionConfig, NodeTypeConfig

Price = Callable[[int], float]
"""USD per MWh in a slot."""


class ZoneEnergy:
    """An `EnergyForecast` by node type.

    Args:
        costs: money for a slot at full load, by node type.
    """

    def __init__(self, costs: Mapping[str, Callable[[int], float]]) -> None:
        self._costs = costs

    def __call__(self, node_type: str, slot: int) -> float:
        """Money for `slot` on a node of this type at full load, >= 0."""
        return self._costs[node_type](slot)


def zone_energy(entry: AuctionConfig, epoch: float) -> EnergyForecast:
    """What a zone's settings say of its energy.

    Args:
        entry: the settings.
        epoch: unix time at which slot 0 began.

    Raises:
        InputError: if its file of prices cannot be used.
    """
    price = _price(entry, epoch)
    return ZoneEnergy(
        {name: _cost(kind, price, entry.slot_seconds) for name, kind in entry.node_types.items()}
    )


def _price(entry: AuctionConfig, epoch: float) -> Price:
    given = entry.energy_price
    if not isinstance(given, str):
        return lambda _: given or 0.0
    try:
        prices, seconds = RepeatedPrices(read_prices(Path(given))), entry.slot_seconds
    except InputError as error:
        raise error if error.place.startswith(given) else error.within(given) from None
    return lambda slot: prices.mean(epoch + slot * seconds, epoch + (slot + 1) * seconds)


def _cost(kind: NodeTypeConfig, price: Price, slot_seconds: float) -> Callable[[int], float]:
    power = kind.power_kw
    if power is None:
        return lambda _: kind.energy_cost
    return lambda slot: slot_costs(power, np.array([price(slot)]), slot_seconds).seen[0]
