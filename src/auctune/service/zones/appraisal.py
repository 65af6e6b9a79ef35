"""Sizes of data sets, and the offers of vendors to repair them."""

from dataclasses import dataclass
from typing import Protocol

from auctune.domain import Money
from auctune.domain.data_size import DataSize
from auctune.service.files.repository import FileRecord
from auctune.service.jobs.training import Training


@dataclass(frozen=True, slots=True)
class VendorOffer:
    """A vendor's offer to repair a data set.

    Attributes:
        vendor: its name.
        price: money.
        seconds: delay that it promises.
        reference: its id of the offer, where an order has to name it.
    """

    vendor: str
    price: Money
    seconds: float
    reference: str = ""


@dataclass(frozen=True, slots=True)
class Appraisal:
    """Size of a data set, and offers to repair it.

    Attributes:
        size: of what would be trained on.
        offers: of vendors that can repair it, if it is not clean.
    """

    size: DataSize
    offers: tuple[VendorOffer, ...] = ()


class Appraiser(Protocol):
    """Inspects data sets: reads, tokenizes, asks vendors; takes seconds, and never blocks."""

    @property
    def has_vendors(self) -> bool:
        """Whether any vendor could repair a data set."""
        ...

    async def size(self, file: FileRecord, max_length: int) -> DataSize:
        """Return the size of a clean data set.

        Raises:
            InputError: if it is not a data set that can be trained on.
        """
        ...

    async def inspect(self, file: FileRecord, training: Training) -> Appraisal:
        """Return the size of a data set that may be repaired, and the offers of vendors.

        Raises:
            InputError: if no vendor can repair it.
        """
        ...
