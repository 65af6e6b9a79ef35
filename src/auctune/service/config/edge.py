"""Settings of a zone of kind `edge`: its sites, traffic between them, and how they are sold."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Field, model_validator

from auctune.domain import InputError
from auctune.edge import EdgeMarket, ErisParams, Site
from auctune.engine.edge.ray_sites import worker_gpus
from auctune.engine.runtime.ray.params import ClusterAddress
from auctune.files.schema import STRICT
from auctune.service.config.fields import (
    Count,
    Name,
    NonNegative,
    Positive,
    RelativePath,
    Share,
    slots_per_day,
)
from auctune.service.config.zone import DeviceRequirement, LanguageZoneConfig, ZoneRequirements

_MAX_SLOTS = 144

CHUNK_MB = 0.01
"""MB of a chunk of rows: the rows of a site are cut into chunks of at most this size, each trained
for all epochs in one slot at one site."""

Units = Annotated[dict[Name, NonNegative], Field(min_length=1)]


class SiteConfig(BaseModel):
    """[[zones.sites]]."""

    model_config = STRICT

    id: Name = Field(description="name of the site; `market.sites` of a job refers to it")
    capacity: Units = Field(
        description="units by resource type, such as `{ cpu = 4.0, gpu = 1.0 }`"
    )


class PricingConfig(BaseModel):
    """[zones.pricing].

    `reserve_value` is a constant and not the mean of the bids so far: bids are sealed, and a
    rejected bid costs nothing. With a mean a menu would disclose bids, and one huge bid would stop
    all sales.
    """

    model_config = STRICT

    reserve_value: NonNegative = Field(
        default=10.0,
        description="the value of a typical job, money, from which "
        "[prices by the share that is sold](../explanation/edge.md#prices) follow. Set by the "
        "operator, as prices must not depend on sealed bids",
    )


class EdgeRayConfig(BaseModel):
    """[zones.ray] of kind `edge`."""

    model_config = STRICT

    address: ClusterAddress = Field(description="`HOST:PORT` of the cluster's head")


def _two_sites() -> list[SiteConfig]:
    return [SiteConfig(id=name, capacity={"cpu": 2.0}) for name in ("site-a", "site-b")]


class EdgeConfig(LanguageZoneConfig):
    """[[zones]] of kind `edge`."""

    kind: Literal["edge"] = "edge"
    slots: Annotated[int, Field(ge=2, le=10_000)] | None = Field(
        default=None,
        description="how many slots ahead jobs are planned, whatever their deadlines. Default: a "
        "day, at most 144 slots",
    )
    sites: Annotated[list[SiteConfig], Field(min_length=1, max_length=1000)] = Field(
        default_factory=_two_sites,
        description="the sites. Default: `site-a` and `site-b`, with 2 CPUs each",
    )
    worker: Units = Field(
        default_factory=lambda: {"cpu": 1.0},
        description="what a worker occupies at its site, units by resource type",
    )
    server: dict[Name, NonNegative] = Field(
        default_factory=dict,
        description="what a parameter server occupies at its site, units by resource type",
    )
    traffic_mb_per_slot: Positive = Field(
        default=1000.0, description="MB that may cross sites in a slot, over all jobs"
    )
    rows_move: bool = Field(
        default=False,
        description="whether plans may have chunks trained at another site, to which they are sent "
        "then. Default: rows stay at their sites, and only gradients and weights cross",
    )
    pricing: PricingConfig = Field(
        default=PricingConfig(),
        description="prices",
    )
    profile: RelativePath | None = Field(
        default=None,
        description="a file of [`auctune profile`](command-line.md#auctune-profile), measured on a "
        "machine like those of the sites; it says how fast a worker trains. Required if the sites "
        "have GPUs on a cluster and the machine of the service has none. Default: the device is "
        "measured at the first start, on the machine of the service",
    )
    micro_batch: Count = Field(
        default=4,
        description="rows that go through the model together, all of one chunk: at most so many, "
        "and a divisor of the job's batch size",
    )
    headroom: Share = Field(
        default=0.4,
        description="share of a slot that is not sold, for workers that start and for other "
        "programs on the machine",
    )
    device: str = Field(
        default="cpu",
        description="device of the workers, as torch names it. With `ray` and `cuda` a worker "
        "takes as many GPUs as it has units of the type `gpu`, and sees only those",
    )
    ray: EdgeRayConfig | None = Field(
        default=None,
        description="a Ray cluster, its nodes with resources "
        "[as `auctune edge run` has them](../how-to/run-the-edge.md#on-several-machines). Default: "
        "all sites are on this machine, and need no Ray",
    )

    @property
    def num_slots(self) -> int:
        """Horizon in slots; a day by default, limited."""
        return self.slots or slots_per_day(self.slot_seconds, 2, _MAX_SLOTS)

    @property
    def moved_mb(self) -> float:
        """Traffic of a chunk that is moved; where rows stay, more than a slot can have."""
        return CHUNK_MB if self.rows_move else 2 * self.traffic_mb_per_slot

    @property
    def market(self) -> EdgeMarket:
        """Supply of the market; an invalid one raises InputError with its key."""
        return EdgeMarket(
            slots=self.num_slots,
            sites=tuple(Site(site.id, site.capacity) for site in self.sites),
            traffic_mb_per_slot=self.traffic_mb_per_slot,
            chunk_mb=self.moved_mb,
        )

    @property
    def params(self) -> ErisParams:
        return ErisParams("share", self.pricing.reserve_value)

    def record(self) -> dict[str, Any]:
        """Return supply and pricing as JSON values, for `read_supply`."""
        return supply_record(self.market, self.params)

    def files(self) -> Mapping[str, str]:
        return {} if self.profile is None else {"profile": self.profile}

    @property
    def num_cpu_workers(self) -> int:
        if self.ray is not None or self.device != "cpu":
            return 0
        needs = {kind: units for kind, units in self.worker.items() if units}
        return sum(
            int(min(site.capacity.get(kind, 0.0) / units for kind, units in needs.items()))
            for site in self.sites
        )

    @property
    def worker_threads(self) -> int:
        return self.threads or 1

    def requirements(self) -> ZoneRequirements:
        if self.ray is not None:
            return ZoneRequirements()
        return ZoneRequirements(
            (
                DeviceRequirement(
                    "",
                    self.device,
                    self.profile,
                    len(self.sites),
                    gradient_checkpointing=self.gradient_checkpointing,
                ),
            )
        )

    @model_validator(mode="after")
    def _check(self) -> Self:
        types = self.market.types
        for name, needs in (("worker", self.worker), ("server", self.server)):
            for kind in needs:
                if kind not in types:
                    known = f"one of {', '.join(types)}"
                    raise InputError(f"{name}.{kind}", "is not a resource type of any site", known)
        if not any(self.worker.values()):
            raise InputError("worker", "occupies no units", "units > 0 of at least one type")
        if self.ray is not None:
            if self.device.startswith("cuda:"):
                found = f"{self.device!r}, where Ray gives each worker GPUs of its own"
                raise InputError("device", found, "cuda")
            worker_gpus(self.device, self.worker)
        elif self.device.startswith("cuda") and len(self.sites) > 1:
            # Each is measured as if it were alone on the GPU.
            found = f"{self.device!r} would be shared by the workers of {len(self.sites)} sites"
            raise InputError("device", found, "one site, or a cluster where sites have own GPUs")
        return self


def supply_record(market: EdgeMarket, params: ErisParams) -> dict[str, Any]:
    """Return supply and pricing as JSON values."""
    pricing: dict[str, Any] = {
        "kind": params.pricing,
        "worth": params.worth,
        "weight": params.weight,
        "rise": params.rise,
        "base": dict(market.price_base),
    }
    if params.search != "nested":
        # Only a market without a service has another search.
        pricing["search"] = params.search
    return {
        "slots": market.slots,
        "sites": [{"id": site.id, "capacity": dict(site.capacity)} for site in market.sites],
        "traffic_mb_per_slot": market.traffic_mb_per_slot,
        "chunk_mb": market.chunk_mb,
        "pricing": pricing,
    }


def read_supply(record: Mapping[str, Any]) -> tuple[EdgeMarket, ErisParams]:
    """Return supply and pricing from what `supply_record` returned."""
    pricing = record["pricing"]
    market = EdgeMarket(
        slots=record["slots"],
        sites=tuple(Site(site["id"], site["capacity"]) for site in record["sites"]),
        traffic_mb_per_slot=record["traffic_mb_per_slot"],
        chunk_mb=record["chunk_mb"],
        price_base=pricing["base"],
    )
    options = [pricing[name] for name in ("kind", "worth", "weight", "rise")]
    options.append(pricing.get("search", "nested"))
    return market, ErisParams(*options)
