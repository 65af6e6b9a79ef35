"""A zone of kind `spot` in auctune.toml: the market that it rents from, and how it rents."""

import os
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from auctune.domain import InputError
from auctune.run.rental.estimate import Renting
from auctune.service.settings.fields import Count, Positive, Rate
from auctune.service.settings.zone_entry import ZoneEntry
from auctune.service.settings.zone_needs import DeviceNeed, ZoneNeeds

_DAY_SECONDS = 86_400
_MOST_SLOTS = 96


class SpotEntry(ZoneEntry):
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
    warm: bool = True
    saved_every: Positive = 30.0

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

    def needs(self) -> ZoneNeeds:
        """The device of its instances: each is a process on this machine."""
        return ZoneNeeds((DeviceNeed("", self.device, self.profile, self.n_max),))

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.prices is not None and self.fixed_price is not None:
            raise InputError("fixed_price", "is given with prices", "one of the two")
        if self.n_min > self.n_max:
            raise InputError("n_min", f"{self.n_min}", f"at most n_max = {self.n_max}")
        if self.scaling is not None and len(self.scaling) != self.n_max:
            found = f"{len(self.scaling)} numbers"
            raise InputError("scaling", found, f"one for each count up to n_max = {self.n_max}")
        return self

    def beside(self, folder: Path) -> Self:
        """The same with paths that start from a folder."""
        given = {name: getattr(self, name) for name in ("market", "prices", "profile")}
        paths = {name: str(folder / path) for name, path in given.items() if path is not None}
        return self.model_copy(update=paths)
