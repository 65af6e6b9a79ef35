"""Sizes of data sets, offers of vendors to repair them, and repairs as agreed."""

from dataclasses import dataclass

from auctune.domain import Money
from auctune.domain.data_size import DataSize


@dataclass(frozen=True, slots=True)
class VendorOffer:
    """A vendor's offer to repair a data set.

    Attributes:
        seconds: delay that it promises.
        reference: the vendor's id of the offer, if an order has to name it.
    """

    vendor: str
    price: Money
    seconds: float
    reference: str = ""


@dataclass(frozen=True, slots=True)
class DatasetQuote:
    """Size of what would be trained on, and offers to repair it if the data are not clean."""

    size: DataSize
    offers: tuple[VendorOffer, ...] = ()


@dataclass(frozen=True, slots=True)
class Repair:
    """A repair of a job's data, as agreed with a vendor.

    Attributes:
        price: paid to the vendor when the result has arrived.
        ready: the first slot that may train on the result; before it the vendor is not late.
        reference: the vendor's id of its offer, if the order has to name it.
    """

    vendor: str
    price: Money
    ready: int
    reference: str = ""
