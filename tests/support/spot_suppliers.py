"""Ways to rent for the same tests: processes of this machine, and actors of a Ray cluster."""

from typing import Protocol

from auctune.engine.spot.job_config import SpotRayParams
from auctune.engine.spot.provider import LocalProvider, ProviderFactory
from auctune.engine.spot.ray_workers import RayProvider
from auctune.engine.spot.traces import MarketTrace

# Of `support.ray_nodes`, whose nodes are marked by their names.
SPOT, ON_DEMAND = "spot", "on-demand"
MISSING_SECONDS = 20.0
MOST = 4


class Supplier(Protocol):
    """Makes supplies of one kind."""

    def supply(self, trace: MarketTrace) -> ProviderFactory:
        """After a trace."""
        ...


class OnThisMachine:
    """Instances are processes."""

    def supply(self, trace: MarketTrace) -> ProviderFactory:
        return LocalProvider(trace, warm=True)


class OnRay:
    """Instances are actors of a cluster that is adopted."""

    def __init__(self, address: str) -> None:
        self.address = address

    def supply(self, trace: MarketTrace, *, use_cluster_capacity: bool = False) -> RayProvider:
        params = SpotRayParams(
            self.address, use_cluster_capacity=use_cluster_capacity, missing_seconds=MISSING_SECONDS
        )
        return RayProvider(trace, params, MOST)
