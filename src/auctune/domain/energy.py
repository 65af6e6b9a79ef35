"""What energy will cost, for a market that never ends."""

from typing import Protocol

from auctune.domain.cluster import Cluster


class EnergyForecast(Protocol):
    """Knows the energy cost of any slot to come.

    A rolling market asks once for each slot and node type, when the slot enters its window, and
    sells the slot by that answer from then on.
    """

    def __call__(self, node_type: str, slot: int) -> float:
        """Money for `slot` on a node of this type at full load, >= 0."""
        ...


class RepeatedEnergy:
    """The costs of a cluster's own slots, again and again: a day's tariff, if they are a day.

    Args:
        cluster: its `slots` are the period.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._period = cluster.slots
        self._types = cluster.node_types

    def __call__(self, node_type: str, slot: int) -> float:
        """The cost of the slot that stands at the same place in the period."""
        return self._types[node_type].energy_cost[slot % self._period]
