"""Settings of a zone of kind `spot`: the market that it rents from, and its policy."""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import BaseModel, Field, model_validator

from auctune.domain import InputError
from auctune.engine.runtime.ray.params import ClusterAddress, Resource
from auctune.engine.spot.job_config import SpotRayParams, SpotStrategy
from auctune.schema import STRICT
from auctune.service.config.fields import (
    Count,
    NonNegative,
    Positive,
    RelativePath,
    Share,
    slots_per_day,
)
from auctune.service.config.zone import DeviceRequirement, LanguageZoneConfig, ZoneRequirements
from auctune.spot.job import Changeover, InstanceStart, Overhead, read_overhead

_MAX_SLOTS = 96
_RAY = SpotRayParams()

# How long jobs wait, slot by slot, for a cluster that is not reachable.
_REACH_SECONDS = 86_400.0


class SpotRayConfig(BaseModel):
    """[zones.ray] of kind `spot`."""

    model_config = STRICT

    address: ClusterAddress | None = Field(
        default=None,
        description="`HOST:PORT` of the cluster's head; this machine must run a Ray node of it. "
        "Default: each job has a cluster of its own on this machine, to try it out",
    )
    spot_resource: Resource = Field(
        default=_RAY.spot, description="custom resource of the Ray nodes for spot instances"
    )
    on_demand_resource: Resource = Field(
        default=_RAY.on_demand,
        description="custom resource of the Ray nodes for on-demand instances",
    )
    missing_seconds: Positive = Field(
        default=_RAY.missing_seconds,
        description="time without a place on the cluster after which a spot instance is preempted",
    )

    def params(self) -> SpotRayParams:
        return SpotRayParams(
            address=self.address,
            spot=self.spot_resource,
            on_demand=self.on_demand_resource,
            missing_seconds=self.missing_seconds,
            reach_seconds=_REACH_SECONDS,
        )


class SpotConfig(LanguageZoneConfig):
    """[[zones]] of kind `spot`."""

    kind: Literal["spot"] = Field(
        default="spot", description="required: a zone without a kind is an auction"
    )
    market: RelativePath = Field(
        description="a [market file](spot-files.md) with counts, and prices unless they come from "
        "elsewhere: CSV with the columns `t_s`, `available` and `price`. It is replayed slot by "
        "slot",
        examples=["market.csv"],
    )
    prices: RelativePath | None = Field(
        default=None, description="another file that prices are taken from", examples=["prices.csv"]
    )
    fixed_price: NonNegative | None = Field(
        default=None, description="a constant price, instead of prices of a file", examples=[0.3]
    )
    start: Annotated[int, Field(ge=0)] | None = Field(
        default=None,
        description="slot of the market with which the zone opens; earlier slots are the history "
        "that forecasts and estimates begin with. At its end the market begins again with its "
        "first slot. Default: a third of the market",
        examples=[48],
    )
    market_slot_seconds: Positive | None = Field(
        default=None,
        description="seconds of the market file that a slot replays, and costs. Default: "
        "`slot_seconds`; more replays it faster",
        examples=[1800.0],
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
        examples=[96],
    )
    max_jobs: Count = Field(
        default=4,
        description="how many jobs run at once; each finds the market as the file says",
    )
    n_min: Annotated[int, Field(ge=1, le=1000)] = Field(
        default=1, description="least number of GPUs of a job while it runs"
    )
    n_max: Annotated[int, Field(ge=1, le=1000)] = Field(
        default=4, description="largest number of GPUs of a job"
    )
    scaling: Annotated[list[Positive], Field(min_length=1)] | None = Field(
        default=None,
        description="speed of 1 to `n_max` GPUs, relative to one GPU. Default: n times as fast",
        examples=[[1.0, 1.9, 2.7, 3.4]],
    )
    changeover: Changeover | None = Field(
        default=None,
        description="[what a change of GPUs costs]"
        "(../explanation/spot.md#what-a-change-of-gpus-costs) in plans and estimates, "
        "`by_instance` or `by_total`. Default: by instance, unless `mu1` or `mu2` is given or, "
        "without `instance_start_seconds`, `n_max` is more than 32",
        examples=["by_total"],
    )
    instance_start_seconds: NonNegative | None = Field(
        default=None,
        description="by instance: from an instance's start until it works; at most "
        "`slot_seconds`. Default: a tenth of a slot",
        examples=[30.0],
    )
    mu1: Annotated[float, Field(gt=0, le=1)] | None = Field(
        default=None,
        description="by total: effective share of a slot that begins with more GPUs than the one "
        "before. Default: 0.9",
        examples=[0.9],
    )
    mu2: Annotated[float, Field(gt=0, le=1)] | None = Field(
        default=None,
        description="by total: effective share of a slot that begins with fewer GPUs. "
        "Default: 0.95",
        examples=[0.95],
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
        examples=["profile.json"],
    )
    headroom: Share = Field(
        default=0.0,
        description="share of an instance's measured speed that estimates do not count on",
    )
    start_seconds: NonNegative = Field(
        default=10.0,
        description="time from the admission of a job until its process can train, while none of "
        "the zone has started; later "
        "[the measured start times](../explanation/service.md#zones-that-rent) count. A plan "
        "begins with the first slot after it",
    )
    prefork: bool = Field(
        default=True,
        description="whether workers are forked from a process that has loaded everything",
    )
    checkpoint_seconds: Positive = Field(
        default=30.0,
        description="seconds between checkpoints within a slot; there is always one at its end",
    )
    provider: Literal["local", "ray"] = Field(
        default="local",
        description="where instances run: `local`, processes of this machine, or `ray`, actors of "
        "a [cluster](../how-to/run-on-a-cluster.md#rented-instances), one each",
    )
    ray: SpotRayConfig | None = Field(
        default=None,
        description='the [Ray cluster](#zonesray-of-kind-spot); only with `provider = "ray"`',
        examples=[{"address": "10.0.0.1:6379", "missing_seconds": 15.0}],
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
        seconds = self.instance_start_seconds
        return read_overhead(
            self.changeover,
            self.n_max,
            None if seconds is None else seconds / self.slot_seconds,
            self.mu1,
            self.mu2,
            start_key="instance_start_seconds",
            default_start=InstanceStart().slots,
        )

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
        return None if self.provider == "local" else (self.ray or SpotRayConfig()).params()

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
        self._check_changeover()
        if self.n_min > self.n_max:
            raise InputError("n_min", f"{self.n_min}", f"at most n_max = {self.n_max}")
        if self.scaling is not None and len(self.scaling) != self.n_max:
            found = f"{len(self.scaling)} numbers"
            raise InputError("scaling", found, f"one for each count up to n_max = {self.n_max}")
        return self

    def _check_provider(self) -> None:
        if self.provider == "local" and self.ray is not None:
            raise InputError("ray", "is given with provider 'local'", 'provider = "ray"')
        if self.provider == "ray" and "prefork" in self.model_fields_set and self.prefork:
            raise InputError(
                "prefork", "is given with provider 'ray'", "workers that load by themselves"
            )
        if self.uses_external_cluster and self.device.startswith("cuda:"):
            found = f"{self.device!r}, where Ray gives each instance a GPU of its own"
            raise InputError("device", found, "cuda")

    def _check_changeover(self) -> None:
        overhead, seconds = self.overhead, self.instance_start_seconds
        if seconds is not None and isinstance(overhead, InstanceStart) and overhead.slots > 1:
            expected = f"at most slot_seconds = {self.slot_seconds:g}"
            raise InputError("instance_start_seconds", f"{seconds:g}", expected)

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
