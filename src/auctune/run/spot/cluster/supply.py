"""A way to rent instances on a Ray cluster, at the prices of a recorded market."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from auctune.run.runtime.ray.params import check_ray
from auctune.run.spot.availability import Availability, Free, Recorded
from auctune.run.spot.cluster.launcher import RayLauncher
from auctune.run.spot.market_provider import MarketProvider, check_reach
from auctune.run.spot.provider import Provider
from auctune.run.spot.trace import MarketTrace
from auctune.run.spot.worker import WorkerSettings
from auctune.run.spot_ray_params import SpotRayParams
from auctune.spot.job import SpotJob


@dataclass(frozen=True, slots=True, eq=False)
class ClusterSupply:
    """A `Supply`: actors of a cluster.

    Attributes:
        trace: prices, and counts unless the cluster's room is counted; its slot 0 is the job's.
        params: of the cluster.
        most: instances that the job can use at once.
    """

    trace: MarketTrace
    params: SpotRayParams
    most: int

    def check(self, job: SpotJob) -> None:
        """See `Supply`."""
        check_ray("provider 'ray'")
        check_reach(self.trace, job)

    def lasting(self) -> dict[str, Any]:
        """See `Supply`: the cluster may be another one when the run goes on."""
        counts = "cluster" if self.params.counts_free else "market"
        return {"provider": "ray", "availability": counts, "trace": self.trace.digest}

    def open(self, settings: WorkerSettings, log: Path) -> Provider:
        """See `Supply`."""
        launcher = RayLauncher(settings, log, self.params, self.most)
        counted: Availability = Recorded(self.trace)
        if self.params.counts_free:
            counted = Free(launcher.free)
        return MarketProvider(self.trace, launcher, counted)
