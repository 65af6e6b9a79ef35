"""What comes of asking a vendor, and what is ordered of it."""

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from auctune.domain import InputError, Money, Quote
from auctune.service.vendors.data_facts import DataFacts

_ORDER_ID = re.compile("[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class Offer:
    """A vendor's offer for one data set.

    Attributes:
        vendor: its name.
        id: what the vendor calls the offer; an order has to name it.
        price: money.
        delay_seconds: that the work lasts.
        valid_until: unix time until which an order is taken.
    """

    vendor: str
    id: str
    price: Money
    delay_seconds: int
    valid_until: float

    def to_quote(self, slot_seconds: float) -> Quote:
        """The offer as an auction takes it: its delay in whole slots, rounded up."""
        # Fractions: 6 / 0.2 must not come out above 30.
        slots = math.ceil(Fraction(self.delay_seconds) / Fraction(str(slot_seconds)))
        return Quote(self.vendor, self.price, slots)


@dataclass(frozen=True, slots=True)
class Decline:
    """A vendor that does not want to have this data set."""

    vendor: str
    reason: str


@dataclass(frozen=True, slots=True)
class Order:
    """Work given to a vendor: kept by the market, so that it can be given again after a crash.

    Attributes:
        id: chosen by the market, never used for anything else; 1 to 64 of A-Z a-z 0-9 _ -.
        offer: what the vendor called its offer.
        price: money that was offered.
        data: what is to be repaired.
    """

    id: str
    offer: str
    price: Money
    data: DataFacts

    def __post_init__(self) -> None:
        # It stands in a path.
        if not _ORDER_ID.fullmatch(self.id):
            raise InputError("id", f"{self.id!r}", "1 to 64 of A-Z a-z 0-9 _ -")

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values under the attributes' names."""
        return asdict(self) | {"price": str(self.price)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Order":
        """The order that `to_json` wrote."""
        data = DataFacts(**values["data"])
        return cls(values["id"], values["offer"], Decimal(values["price"]), data)
