"""Which vendor repairs a job's data, at which price, and until when."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from auctune.domain import Decision, Money, Task
from auctune.service.zones.auction.records import Record


@dataclass(frozen=True, slots=True)
class Repair:
    """A repair, as agreed with a vendor.

    Attributes:
        vendor: its name.
        price: paid to the vendor once the result is there.
        ready: the first slot that may train on them; until it begins the vendor is not late.
        reference: its id of the offer, where an order has to name it.
    """

    vendor: str
    price: Money
    ready: int
    reference: str = ""

    def to_record(self) -> Record:
        """As plain values."""
        return {
            "vendor": self.vendor,
            "price": str(self.price),
            "ready": self.ready,
            "reference": self.reference,
        }

    @classmethod
    def from_record(cls, record: Record) -> "Repair":
        """What `to_record` gave."""
        return cls(**{**record, "price": Decimal(record["price"])})


def decided_repair(task: Task, decision: Decision, references: Mapping[str, str]) -> Repair | None:
    """Return the repair that is part of an admission, or None if the data are clean.

    Args:
        task: as it was offered, with the vendors' quotes.
        decision: that admitted it.
        references: ids of the offers, by vendor.
    """
    assert decision.schedule is not None
    vendor = decision.schedule.vendor
    for quote in task.quotes:
        if quote.vendor == vendor:
            ready = task.arrival + quote.delay
            return Repair(vendor, quote.price, ready, references.get(vendor, ""))
    return None
