"""A zone that is open for business: its desk, and what requests must know of it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from auctune.service.files.record import FileRecord
from auctune.service.jobs.asked import Defaults
from auctune.service.jobs.size import DataSize
from auctune.service.jobs.training import Training
from auctune.service.zones.auction.bid import VendorOffer
from auctune.service.zones.auction.supply import Supply
from auctune.service.zones.auction.zone import AuctionZone
from auctune.service.zones.clock import SlotClock
from auctune.service.zones.desk import Desk
from auctune.service.zones.restart import Fresh

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Appraisal:
    """What a look at a data set found.

    Attributes:
        size: of what would be trained on.
        offers: of vendors that can mend it, where it needs that.
    """

    size: DataSize
    offers: tuple[VendorOffer, ...] = ()


class Appraiser(Protocol):
    """Looks at data sets: reads, tokenizes, asks vendors; takes seconds, and never blocks."""

    @property
    def has_vendors(self) -> bool:
        """Whether there is anybody who could mend a data set."""
        ...

    async def size(self, file: FileRecord, max_length: int) -> DataSize:
        """How much a clean data set is.

        Raises:
            InputError: if it is none that can be trained on.
        """
        ...

    async def appraise(self, file: FileRecord, training: Training) -> Appraisal:
        """How much a data set is that vendors may mend, and what they ask.

        Raises:
            InputError: if nobody can make anything of it.
        """
        ...


@dataclass(frozen=True, slots=True)
class OpenZone:
    """One zone.

    Attributes:
        name: of the zone.
        desk: decides.
        supply: what it offers.
        clock: its slots.
        defaults: what it chooses where requests do not.
        appraiser: looks at data sets for its base.
        fresh: makes state and mechanism of before the first event.
    """

    name: str
    desk: Desk
    supply: Supply
    clock: SlotClock
    defaults: Defaults
    appraiser: Appraiser
    fresh: Fresh

    async def ask(self, run: Callable[[AuctionZone], T]) -> T:
        """What `run` comes to on the desk's thread, once it is on record."""
        return await self.desk.ask_here(run)
