"""The supply: sites of an edge network, and what may cross between them.

Shapes: R sites, K resource types.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from auctune.domain import InputError
from auctune.domain.checks import check_finite, check_positive
from auctune.edge.job import MOST_CELLS, MOST_UNITS, EdgeJob, check_most
from auctune.numerics.arrays import Floats

DATA = "data"
DEFAULT_PRICE_BASE = 1000.0


@dataclass(frozen=True, slots=True)
class Site:
    """An edge site.

    Attributes:
        id: its name.
        capacity: C_r^k, units by resource type; a type that is not named is not there.
    """

    id: str
    capacity: Mapping[str, float]

    def __post_init__(self) -> None:
        if not self.id:
            raise InputError("id", "is empty", "a name")
        for kind, units in self.capacity.items():
            check_finite(units, f"capacity.{kind}", "units >= 0")
            check_most(units, f"capacity.{kind}", MOST_UNITS)


@dataclass(frozen=True)
class EdgeMarket:
    """Sites over a number of slots; Pang et al. (TMC 2024), section III.

    Attributes:
        slots: T; slots are 0..T-1.
        sites: in the order of the arrays.
        traffic_mb_per_slot: B, MB that may cross sites in a slot; 1 GB = 1,000 MB.
        chunk_mb: theta, MB of a data chunk.
        price_base: gamma by resource type, and of traffic under "data"; 1000 where none is given.
        types: resource types, in the order in which sites name them.
    """

    slots: int
    sites: tuple[Site, ...]
    traffic_mb_per_slot: float
    chunk_mb: float
    price_base: Mapping[str, float] = field(default_factory=dict)
    types: tuple[str, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.slots < 1:
            raise InputError("slots", f"{self.slots!r}", "a number of slots >= 1")
        if not self.sites:
            raise InputError("sites", "is empty", "one site at least")
        ids = [site.id for site in self.sites]
        for index, name in enumerate(ids):
            if name in ids[:index]:
                raise InputError(f"sites[{index}].id", f"{name!r} is there twice", "each id once")
        check_positive(self.traffic_mb_per_slot, "traffic_mb_per_slot", "MB > 0")
        check_finite(self.chunk_mb, "chunk_mb", "MB >= 0")
        named = dict.fromkeys(kind for site in self.sites for kind in site.capacity)
        if DATA in named:
            raise InputError("sites", f"have a type {DATA!r}", "another name: it means traffic")
        object.__setattr__(self, "types", tuple(named))
        check_most(self.slots, "slots", MOST_CELLS // (len(self.sites) * max(1, len(named))))
        for kind, base in self.price_base.items():
            if kind != DATA and kind not in named:
                raise InputError(
                    f"price_base.{kind}", "is no type of a site", ", ".join((DATA, *named))
                )
            if not (base > 1 and base < float("inf")):
                raise InputError(f"price_base.{kind}", f"{base!r}", "a number > 1")

    @property
    def site_ids(self) -> tuple[str, ...]:
        """The sites' names, in order."""
        return tuple(site.id for site in self.sites)

    def capacity(self) -> Floats:
        """[R, K] units."""
        return np.array(
            [[site.capacity.get(kind, 0.0) for kind in self.types] for site in self.sites]
        ).reshape(len(self.sites), len(self.types))

    def base(self, kind: str) -> float:
        """gamma of a resource type, or of traffic (`DATA`)."""
        return self.price_base.get(kind, DEFAULT_PRICE_BASE)

    def needs(self, wanted: Mapping[str, float]) -> Floats:
        """[K] units of each type."""
        return np.array([wanted.get(kind, 0.0) for kind in self.types])

    def check(self, job: EdgeJob, begin: int = 0) -> None:
        """Refuse a job that does not speak of this market.

        Args:
            job: the bid.
            begin: the first slot of the market's window.

        Raises:
            InputError: naming the field.
        """
        last = begin + self.slots - 1
        if not begin <= job.arrival <= last:
            raise InputError("arrival", f"{job.arrival}", f"a slot from {begin} to {last}")
        check_most(job.num_chunks, "chunks", MOST_CELLS // self.slots)
        known = set(self.site_ids)
        for site in job.chunks:
            if site not in known:
                raise InputError(f"chunks.{site}", "is no site", "the id of a site")
        for name, needs in (("worker", job.worker), ("server", job.server)):
            for kind, units in needs.items():
                if units and kind not in self.types:
                    raise InputError(
                        f"{name}.{kind}", "is no type of a site", f"one of {', '.join(self.types)}"
                    )
