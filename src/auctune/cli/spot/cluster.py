"""Options of `auctune spot run` that say where on a cluster instances are."""

import re
from dataclasses import dataclass
from typing import Any

from auctune.domain.errors import InputError

_DEFAULTS = (None, "market", "auctune:spot", "auctune:on-demand")
_OPTIONS = ("--ray-address", "--availability", "--spot-resource", "--on-demand-resource")
_ADDRESS = re.compile(r"[^\s/:]+:[0-9]{1,5}")


@dataclass(frozen=True, slots=True)
class OnCluster:
    """The options as they were given.

    Attributes:
        address: HOST:PORT; none: a cluster of the run's own.
        availability: market or cluster.
        spot, on_demand: resources.
    """

    address: str | None
    availability: str
    spot: str
    on_demand: str

    def record(self, provider: str, *, warm: bool, device: str) -> dict[str, Any] | None:
        """What a run keeps of them; none: its instances are processes here.

        Raises:
            InputError: for what cannot be, or means nothing to the provider.
        """
        if provider not in ("local", "ray"):
            raise InputError("--provider", f"{provider!r}", "local or ray")
        if provider == "local":
            given = (self.address, self.availability, self.spot, self.on_demand)
            for option, value, default in zip(_OPTIONS, given, _DEFAULTS, strict=True):
                if value != default:
                    raise InputError(option, "is given with --provider local", "--provider ray")
            return None
        if self.availability not in ("market", "cluster"):
            raise InputError("--availability", f"{self.availability!r}", "market or cluster")
        if self.address is not None and not _ADDRESS.fullmatch(self.address):
            raise InputError("--ray-address", f"{self.address!r}", "HOST:PORT")
        if warm:
            raise InputError(
                "--warm", "is given with --provider ray", "workers that load by themselves"
            )
        if self.address is not None and device.startswith("cuda:"):
            raise InputError("--device", f"{device!r}", "cuda: Ray gives each instance a GPU")

        from auctune.run.executor.cluster.params import check_ray
        from auctune.run.spot_ray_params import SpotRayParams

        check_ray("--provider ray")
        counts_free = self.availability == "cluster"
        return SpotRayParams(self.address, self.spot, self.on_demand, counts_free).to_record()
