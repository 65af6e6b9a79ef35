"""A zone of kind `spot` in auctune.toml: the market that it rents from, and how it rents."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from auctune.domain import InputError
from auctune.run.rental.estimate import Renting
from auctune.run.spot_ray_params import SpotRayParams
from auctune.service.settings.fields import Count, Positive, Rate
from auctune.service.settings.language_entry import LanguageZoneEntry
from auctune.service.settings.spot_ray_entry import SpotRayEntry
from auctune.service.settings.zone_needs import DeviceNeed, ZoneNeeds

_DAY_SECONDS = 86_400
_MOST_SLOTS = 96


class SpotEntry(LanguageZoneEntry):
    """[[zones]] of kind `spot`."""

    kind: Literal["spot"] = "spot"
    market: str
    prices: str | None = None
    fixed_price: Rate | None = None
    start: Annotated[int, Field(ge=0)] | None = None
    market_slot_seconds: Positive | None = None
    on_demand_price: Positive = 1.0
    margin: Rate = 0.0
    policy: str = "robust:risk=0.05"
    forecast: str = "seasonal"
    slots: Annotated[int, Field(ge=1, le=2000)] | None = None
    jobs: Count = 4
    n_min: Annotated[int, Field(ge=1, le=1000)] = 1
    n_max: Annotated[int, Field(ge=1, le=1000)] = 4
    scaling: Annotated[list[Positive], Field(min_length=1)] | None = None
    mu1: Annotated[float, Field(gt=0, le=1)] = 0.9
    mu2: Annotated[float, Field(gt=0, le=1)] = 0.95
    device: str = "cpu"
    micro_batch: Count = 4
    profile: str | None = None
    spare: Annotated[float, Field(ge=0, lt=1)] = 0.0
    start_seconds: Rate = 10.0
    warm: bool = True
    saved_every: Positive = 30.0
    provider: Literal["local", "ray"] = "local"
    ray: SpotRayEntry | None = None

    @property
    def num_slots(self) -> int:
        """How far ahead a deadline may lie."""
        return self.slots or max(1, min(_MOST_SLOTS, round(_DAY_SECONDS / self.slot_seconds)))

    @property
    def replayed_seconds(self) -> float:
        """Length of a slot in the market's own time."""
        return self.market_slot_seconds or self.slot_seconds

    @property
    def worker_threads(self) -> int:
        """Of each worker on a CPU: this machine's cores, divided among those of a job."""
        return self.threads or max(1, len(os.sched_getaffinity(0)) // self.n_max)

    @property
    def renting(self) -> Renting:
        """How it rents."""
        return Renting(self.policy, self.forecast)

    @property
    def adopts(self) -> bool:
        """Whether its instances are on a cluster that others look after."""
        return self.ray is not None and self.ray.address is not None

    @property
    def cluster(self) -> SpotRayParams | None:
        """On which its instances are; none: they are processes on this machine."""
        return None if self.provider == "local" else (self.ray or SpotRayEntry()).params()

    def needs(self) -> ZoneNeeds:
        """The device of its instances, as far as they are on this machine."""
        if self.adopts:
            return ZoneNeeds()
        return ZoneNeeds((DeviceNeed("", self.device, self.profile, self.n_max),))

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.prices is not None and self.fixed_price is not None:
            raise InputError("fixed_price", "is given with prices", "one of the two")
        self._check_provider()
        self._check_gpu()
        if self.n_min > self.n_max:
            raise InputError("n_min", f"{self.n_min}", f"at most n_max = {self.n_max}")
        if self.scaling is not None and len(self.scaling) != self.n_max:
            found = f"{len(self.scaling)} numbers"
            raise InputError("scaling", found, f"one for each count up to n_max = {self.n_max}")
        return self

    def _check_provider(self) -> None:
        if self.provider == "local" and self.ray is not None:
            raise InputError("ray", "is given with provider 'local'", 'provider = "ray"')
        if self.provider == "ray" and "warm" in self.model_fields_set and self.warm:
            raise InputError(
                "warm", "is given with provider 'ray'", "workers that load by themselves"
            )
        if self.adopts and self.device.startswith("cuda:"):
            found = f"{self.device!r}, where Ray gives each instance a GPU of its own"
            raise InputError("device", found, "cuda")

    def _check_gpu(self) -> None:
        """Refuse several instances on one GPU: each is measured as if it were alone on it."""
        instances = self.jobs * self.n_max
        if self.device.startswith("cuda") and not self.adopts and instances > 1:
            found = f"{self.device!r} would be shared by {instances} instances (jobs x n_max)"
            expected = "jobs = 1 and n_max = 1, or a cluster where each instance has its own GPU"
            raise InputError("device", found, expected)

    def files(self) -> Mapping[str, str]:
        """Its market, and the profile of its instances."""
        given = {name: getattr(self, name) for name in ("market", "prices", "profile")}
        return {name: path for name, path in given.items() if path is not None}

    def beside(self, folder: Path) -> Self:
        """The same with paths that start from a folder."""
        paths = {name: str(folder / path) for name, path in self.files().items()}
        return super().beside(folder).model_copy(update=paths)
