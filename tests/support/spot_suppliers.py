"""Ways to rent for the same tests: processes of this machine, and actors of a Ray cluster."""

from typing import Protocol

from auctune.run.spot import MarketTrace, ReplayedMarket
from auctune.run.spot.cluster.supply import ClusterSupply
from auctune.run.spot.provider import Supply
from auctune.run.spot_ray_params import SpotRayParams

# Of `support.ray_nodes`, whose nodes are marked by their names.
SPOT, ON_DEMAND = "spot", "on-demand"
MISSING_SECONDS = 20.0
MOST = 4


class Supplier(Protocol):
    """Makes supplies of one kind."""

    def supply(self, trace: MarketTrace) -> Supply:
        """After a trace."""
        ...


class OnThisMachine:
    """Instances are processes."""

    def supply(self, trace: MarketTrace) -> Supply:
        return ReplayedMarket(trace, warm=True)


class OnRay:
    """Instances are actors of a cluster that is adopted."""

    def __init__(self, address: str) -> None:
        self.address = address

    def supply(self, trace: MarketTrace, *, counts_free: bool = False) -> ClusterSupply:
        params = SpotRayParams(
            self.address, counts_free=counts_free, missing_seconds=MISSING_SECONDS
        )
        return ClusterSupply(trace, params, MOST)
