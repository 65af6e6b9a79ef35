"""The cluster of a rented zone in auctune.toml."""

from pydantic import BaseModel

from auctune.run.spot_ray_params import SpotRayParams
from auctune.schema import STRICT
from auctune.service.settings.fields import Positive
from auctune.service.settings.ray_entry import Address, Resource

_DEFAULT = SpotRayParams()

# A service outlives its cluster: jobs wait for it, slot by slot, as they wait for the service.
_REACH_SECONDS = 86_400.0


class SpotRayEntry(BaseModel):
    """[zones.ray] of kind `spot`."""

    model_config = STRICT

    address: Address | None = None
    spot_resource: Resource = _DEFAULT.spot
    on_demand_resource: Resource = _DEFAULT.on_demand
    missing_seconds: Positive = _DEFAULT.missing_seconds

    def params(self) -> SpotRayParams:
        """For a job's supply."""
        return SpotRayParams(
            address=self.address,
            spot=self.spot_resource,
            on_demand=self.on_demand_resource,
            missing_seconds=self.missing_seconds,
            reach_seconds=_REACH_SECONDS,
        )
