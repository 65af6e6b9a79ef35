"""What a look at a data set found: how much it is, and what vendors ask for mending it."""

from dataclasses import dataclass
from typing import Protocol

from auctune.domain import Money
from auctune.domain.data_size import DataSize
from auctune.service.files.record import FileRecord
from auctune.service.jobs.training import Training


@dataclass(frozen=True, slots=True)
class VendorOffer:
    """A vendor's offer to mend the data.

    Attributes:
        vendor: its name.
        price: what it takes.
        seconds: how long its work lasts.
        reference: what it calls the offer, where an order has to name it.
    """

    vendor: str
    price: Money
    seconds: float
    reference: str = ""


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
