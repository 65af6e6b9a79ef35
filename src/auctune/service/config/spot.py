"""Settings of a zone of kind `spot`: the market that it rents from, and its policy."""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from auctune.domain import InputError
from auctune.engine.runtime.ray.params import RayParams
from auctune.engine.spot.job_config import SpotRayParams, SpotStrategy
from auctune.service.config.fields import (
    Count,
    NonNegative,
    Positive,
    RelativePath,
    Share,
    slots_per_day,
)
from auctune.service.config.zone import DeviceRequirement, LanguageZoneConfig, ZoneRequirements
from auctune.spot.job import MOST_GPUS_BY_INSTANCE, InstanceStart, Overhead

_MAX_SLOTS = 96

# How long jobs wait, slot by slot, for a cluster that is not reachable.
_REACH_SECONDS = 86_400.0


class SpotConfig(LanguageZoneConfig):
    """[[zones]] of kind `spot`."""

    kind: Literal["spot"] = "spot"
    market: RelativePath = Field(
        description="a [market file](spot-files.md) with counts, and prices unless they come from "
        "elsewhere: CSV with the columns `t_s`, `available` and `price`. It is replayed slot by "
        "slot",
    )
    prices: RelativePath | None = Field(
        default=None,
        description="another file that prices are taken from",
    )
    fixed_price: NonNegative | None = Field(
        default=None,
        description="a constant price, instead of prices of a file",
    )
    start: Annotated[int, Field(ge=0)] | None = Field(
        default=None,
        description="slot of the market with which the zone opens; earlier slots are the history "
        "that forecasts and estimates begin with. At its end the market begins again with its "
        "first slot. Default: a third of the market",
    )
    market_slot_seconds: Positive | None = Field(
        default=None,
        description="seconds of the market file that a slot replays, and costs. Default: "
        "`slot_seconds`; more replays it faster",
    )
    on_demand_price: Positive = Field(
        default=1.0,
        description="money for an on-demand GPU and an hour of the market's time, in the currency "
        "of the file",
    )
    margin: NonNegative = Field(
        default=0.0,
        description="what owners pay above the cost of the instances, as a share of this cost",
    )
    policy: str = Field(
        default="robust",
        description="how to rent: `NAME[:KEY=VALUE...]` as of "
        "[`auctune spot`](command-line.md#policies-and-forecasters)",
    )
    forecast: str = Field(
        default="chain",
        description="how to forecast, in the same form; not one that knows the future",
    )
    slots: Annotated[int, Field(ge=1, le=2000)] | None = Field(
        default=None,
        description="how many slots ahead a deadline may be. The history of the market must be 8 "
        "slots longer. Default: a day, at most 96 slots",
    )
    max_jobs: Count = Field(
        default=4,
        description="how many jobs run at once; each finds the market as the file says",
    )
    n_max: Annotated[int, Field(ge=1, le=1000)] = Field(
        default=4, description="largest number of GPUs of a job"
    )
    scaling: Annotated[list[Positive], Field(min_length=1)] | None = Field(
        default=None,
        description="speed of 1 to `n_max` GPUs, relative to one GPU. Default: n times as fast",
    )
    instance_start_seconds: NonNegative | None = Field(
        default=None,
        description="from an instance's start until it works, in plans and estimates; at most "
        "`slot_seconds`. Default: a tenth of a slot, or, if `n_max` is more than 32, "
        "[the account by total](../explanation/spot.md#what-a-change-of-gpus-costs)",
    )
    device: str = Field(
        default="cpu",
        description="device of the workers: `cpu`, `cuda` or `cuda:N`. A GPU of this machine takes "
        "one instance of one job (`max_jobs = 1`, `n_max = 1`); on a cluster with an address each "
        "instance has its own",
    )
    micro_batch: Count = Field(
        default=4, description="rows that go through the model together on one instance"
    )
    profile: RelativePath | None = Field(
        default=None,
        description="a file of [`auctune profile`](command-line.md#auctune-profile); required if "
        "instances have GPUs on a cluster and the machine of the service has none. Default: the "
        "device is measured at the first start, on the machine of the service",
    )
    headroom: Share = Field(
        default=0.0,
        description="share of an instance's measured speed that estimates do not count on",
    )
    start_seconds: NonNegative = Field(
        default=10.0,
        description="time from the admission of a job until its process can train, minutes for a "
        "large base. It counts while no process of the zone has started; later "
        "[the measured start times](../explanation/service.md#zones-that-rent) do. A plan begins "
        "with the first slot after it",
    )
    provider: Literal["local", "ray"] = Field(
        default="local",
        description="where instances run: `local`, processes of this machine, or `ray`, actors of "
        "a [cluster](../how-to/run-on-a-cluster.md#rented-instances), one each",
    )
    ray: RayParams | None = Field(
        default=None,
        description="the [Ray cluster](#instances-on-a-ray-cluster), "
        '`{ address = "HOST:PORT" }` of its head; only with `provider = "ray"`. Default: each job '
        "has a cluster of its own on this machine, to try it out",
    )

    @property
    def num_slots(self) -> int:
        """Horizon in slots; a day by default, limited."""
        return self.slots or slots_per_day(self.slot_seconds, 1, _MAX_SLOTS)

    @property
    def replayed_seconds(self) -> float:
        """Length of a slot in the time of the market file."""
        return self.market_slot_seconds or self.slot_seconds

    @property
    def overhead(self) -> Overhead | InstanceStart:
        """What a change of GPUs costs."""
        if self.instance_start_seconds is not None:
            return InstanceStart(self.instance_start_seconds / self.slot_seconds)
        # Of so many GPUs plans by instance would be coarse.
        return Overhead() if self.n_max > MOST_GPUS_BY_INSTANCE else InstanceStart()

    @property
    def num_cpu_workers(self) -> int:
        return super().num_cpu_workers * self.max_jobs

    @property
    def renting(self) -> SpotStrategy:
        return SpotStrategy(self.policy, self.forecast)

    @property
    def uses_external_cluster(self) -> bool:
        """Return whether instances run on a cluster that the service does not start itself."""
        return self.ray is not None and self.ray.address is not None

    @property
    def cluster(self) -> SpotRayParams | None:
        """Cluster of the instances, or None if they are processes of this machine."""
        if self.provider == "local":
            return None
        address = None if self.ray is None else self.ray.address
        return SpotRayParams(address, reach_seconds=_REACH_SECONDS)

    def requirements(self) -> ZoneRequirements:
        if self.uses_external_cluster:
            return ZoneRequirements()
        return ZoneRequirements(
            (
                DeviceRequirement(
                    "",
                    self.device,
                    self.profile,
                    self.n_max,
                    gradient_checkpointing=self.gradient_checkpointing,
                ),
            )
        )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.prices is not None and self.fixed_price is not None:
            raise InputError("fixed_price", "is given with prices", "one of the two")
        self._check_provider()
        self._check_gpu()
        seconds = self.instance_start_seconds
        if seconds is not None and seconds > self.slot_seconds:
            expected = f"at most slot_seconds = {self.slot_seconds:g}"
            raise InputError("instance_start_seconds", f"{seconds:g}", expected)
        if self.scaling is not None and len(self.scaling) != self.n_max:
            found = f"{len(self.scaling)} numbers"
            raise InputError("scaling", found, f"one for each count up to n_max = {self.n_max}")
        return self

    def _check_provider(self) -> None:
        if self.provider == "local" and self.ray is not None:
            raise InputError("ray", "is given with provider 'local'", 'provider = "ray"')
        if self.uses_external_cluster and self.device.startswith("cuda:"):
            found = f"{self.device!r}, where Ray gives each instance a GPU of its own"
            raise InputError("device", found, "cuda")

    def _check_gpu(self) -> None:
        """Refuse several instances on one GPU: each is measured as if it were alone on it."""
        instances = self.max_jobs * self.n_max
        if self.device.startswith("cuda") and not self.uses_external_cluster and instances > 1:
            found = f"{self.device!r} would be shared by {instances} instances (max_jobs x n_max)"
            expected = (
                "max_jobs = 1 and n_max = 1, or a cluster where each instance has its own GPU"
            )
            raise InputError("device", found, expected)

    def files(self) -> Mapping[str, str]:
        paths = {name: getattr(self, name) for name in ("market", "prices", "profile")}
        return {name: path for name, path in paths.items() if path is not None}
