"""A zone of kind `edge` in auctune.toml: its sites, what may cross them, and how they are sold."""

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Field, model_validator

from auctune.domain import InputError
from auctune.edge import EdgeMarket, ErisParams, Site
from auctune.run.edge.resources import gpus_wanted
from auctune.schema import STRICT
from auctune.service.settings.fields import Name, Positive, Rate
from auctune.service.settings.ray_entry import Address
from auctune.service.settings.zone_entry import ZoneEntry
from auctune.service.settings.zone_needs import DeviceNeed, ZoneNeeds

_DAY_SECONDS = 86_400
_MOST_SLOTS = 144

Units = Annotated[dict[Name, Rate], Field(min_length=1)]


class SiteEntry(BaseModel):
    """[[zones.sites]]."""

    model_config = STRICT

    id: Name
    capacity: Units


class PricingEntry(BaseModel):
    """[zones.pricing].

    `worth` is a number, and never the mean of the bids so far: bids are sealed, and one that is
    refused costs nothing. By such a mean a menu would tell them, and a huge bid stop all sales.
    """

    model_config = STRICT

    kind: Literal["share", "paper"] = "share"
    worth: Rate = 10.0
    weight: Rate = 0.12
    rise: Annotated[float, Field(ge=1, le=1e6)] = 10.0
    base: dict[Name, Positive] = Field(default_factory=dict)


class ClusterEntry(BaseModel):
    """[zones.ray]."""

    model_config = STRICT

    address: Address


def _two_sites() -> list[SiteEntry]:
    return [SiteEntry(id=name, capacity={"cpu": 2.0}) for name in ("site-a", "site-b")]


class EdgeEntry(ZoneEntry):
    """[[zones]] of kind `edge`."""

    kind: Literal["edge"] = "edge"
    base: Literal["small", "lenet", "residual"] = "small"
    slots: Annotated[int, Field(ge=2, le=10_000)] | None = None
    sites: Annotated[list[SiteEntry], Field(min_length=1, max_length=1000)] = Field(
        default_factory=_two_sites
    )
    worker: Units = Field(default_factory=lambda: {"cpu": 1.0})
    server: dict[Name, Rate] = Field(default_factory=dict)
    traffic_mb_per_slot: Positive = 1000.0
    chunk_mb: Positive = 1.0
    pricing: PricingEntry = PricingEntry()
    samples_per_second: Positive = 2000.0
    step_seconds: Rate = 0.01
    spare: Annotated[float, Field(ge=0, lt=1)] = 0.4
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    device: str = "cpu"
    ray: ClusterEntry | None = None

    @property
    def num_slots(self) -> int:
        """How far ahead a deadline may lie."""
        return self.slots or max(2, min(_MOST_SLOTS, round(_DAY_SECONDS / self.slot_seconds)))

    @property
    def market(self) -> EdgeMarket:
        """The supply.

        Raises:
            InputError: naming the key.
        """
        return EdgeMarket(
            slots=self.num_slots,
            sites=tuple(Site(site.id, site.capacity) for site in self.sites),
            traffic_mb_per_slot=self.traffic_mb_per_slot,
            chunk_mb=self.chunk_mb,
            price_base=self.pricing.base,
        )

    @property
    def params(self) -> ErisParams:
        """How it is sold."""
        pricing = self.pricing
        return ErisParams(pricing.kind, pricing.worth, pricing.weight, pricing.rise)

    def record(self) -> dict[str, Any]:
        """The supply and how it is sold, as plain values; `read_supply` reads them."""
        return {
            "slots": self.num_slots,
            "sites": [site.model_dump() for site in self.sites],
            "traffic_mb_per_slot": self.traffic_mb_per_slot,
            "chunk_mb": self.chunk_mb,
            "pricing": self.pricing.model_dump(),
        }

    def needs(self) -> ZoneNeeds:
        """The workers' device, where the sites are nodes of this machine."""
        if self.ray is not None:
            return ZoneNeeds()
        return ZoneNeeds((DeviceNeed("", self.device, None, len(self.sites)),))

    @model_validator(mode="after")
    def _check(self) -> Self:
        types = self.market.types
        for name, needs in (("worker", self.worker), ("server", self.server)):
            for kind in needs:
                if kind not in types:
                    known = f"one of {', '.join(types)}"
                    raise InputError(f"{name}.{kind}", "is no type of a site", known)
        if not any(self.worker.values()):
            raise InputError("worker", "occupies nothing", "units > 0 of one type at least")
        if self.ray is not None:
            if self.device.startswith("cuda:"):
                found = f"{self.device!r}, where Ray gives each worker GPUs of its own"
                raise InputError("device", found, "cuda")
            gpus_wanted(self.device, self.worker)
        if self.pricing.kind == "share" and self.pricing.base:
            raise InputError("pricing.base", "is given with pricing.kind share", 'kind = "paper"')
        return self


def read_supply(record: dict[str, Any]) -> tuple[EdgeMarket, ErisParams]:
    """The supply that `EdgeEntry.record` wrote, and how it is sold."""
    pricing = record["pricing"]
    market = EdgeMarket(
        slots=record["slots"],
        sites=tuple(Site(site["id"], site["capacity"]) for site in record["sites"]),
        traffic_mb_per_slot=record["traffic_mb_per_slot"],
        chunk_mb=record["chunk_mb"],
        price_base=pricing["base"],
    )
    options = (pricing[name] for name in ("kind", "worth", "weight", "rise"))
    return market, ErisParams(*options)
