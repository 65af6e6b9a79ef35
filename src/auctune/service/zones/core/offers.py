"""What zones offer for a job: sizes of data, offers of vendors, menus and estimates."""

from dataclasses import dataclass
from typing import Any, Protocol

from auctune.domain import Money, PriceMenu
from auctune.domain.data_size import DataSize
from auctune.service.jobs.timestamps import to_rfc3339
from auctune.service.jobs.training import Training
from auctune.service.zones.core.clock import SlotClock


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
class DatasetQuote:
    """Size of a data set, and offers to repair it.

    Attributes:
        size: of what would be trained on.
        offers: of vendors that can repair it, if it is not clean.
    """

    size: DataSize
    offers: tuple[VendorOffer, ...] = ()


# Offers, in the terms of their kind and in those by which zones are compared.


@dataclass(frozen=True, slots=True)
class QuoteSummary:
    """What a job would come to in a zone, whatever its kind.

    Attributes:
        cost: that is not exceeded with a probability of 0.9; where a price is binding, the price.
        finish: unix time by which it is expected to be done.
        risk: probability in [0, 1] that it is late, or not done.
    """

    cost: Money
    finish: float
    risk: float


class Offer(Protocol):
    """What a zone offers for a job."""

    @property
    def size(self) -> int:
        """How much room it takes to keep, in cells of plans."""
        ...

    @property
    def summary(self) -> QuoteSummary | None:
        """The cheapest of it; none: the job is not to be had, `why_not`."""
        ...

    @property
    def unavailable_reason(self) -> str | None:
        """Why there is no outlook, for people; none: there is one."""
        ...

    def to_response(self) -> dict[str, Any]:
        """The part of a quote's answer that is of the zone's kind: `lines`, or `estimate`."""
        ...


@dataclass(frozen=True, slots=True)
class MenuOffer:
    """Prices by finish time, each binding for as long as its plan is to be had.

    Attributes:
        menu: earliest finish first, each line cheaper than the one before.
        clock: of its slots.
    """

    menu: PriceMenu
    clock: SlotClock

    @property
    def size(self) -> int:
        """Cells in the plans of all lines."""
        return sum(len(line.schedule.cells) for line in self.menu.lines)

    @property
    def summary(self) -> QuoteSummary | None:
        """The last line: what is bought is run by then, or refunded."""
        if not self.menu.lines:
            return None
        last = self.menu.lines[-1]
        return QuoteSummary(last.price, self.clock.slot_end(last.deadline), 0.0)

    @property
    def unavailable_reason(self) -> str | None:
        """Whether there is no line."""
        return None if self.menu.lines else "it cannot be done by its deadline"

    def to_response(self) -> dict[str, Any]:
        """All lines, in the real clock's time."""
        ends, begins = self.clock.slot_end, self.clock.slot_start
        return {
            "lines": [
                {
                    "line": index,
                    "price": str(line.price),
                    "finish": ends(line.deadline),
                    "finish_time": to_rfc3339(ends(line.deadline)),
                    "start": begins(line.schedule.start),
                    "start_time": to_rfc3339(begins(line.schedule.start)),
                    "vendor": line.schedule.vendor,
                    "slots": len(line.schedule.cells),
                }
                for index, line in enumerate(self.menu.lines)
            ],
            "estimate": None,
        }


@dataclass(frozen=True, slots=True)
class ZoneQuote:
    """A job, and what a zone offers for it.

    Attributes:
        training: what it would train, seed and all.
        deadline: unix time up to which the zone looked.
        offer: what it offers.
        notes: what the data's owner should know of them.
    """

    training: Training
    deadline: float
    offer: Offer
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ZoneQuoteSummary:
    """What one of several zones said of a job.

    Attributes:
        zone: its name.
        kind: of the zone.
        outlook: what the job would come to; none: it cannot have it.
        why_not: why, for people; none: it can.
    """

    zone: str
    kind: str
    outlook: QuoteSummary | None
    unavailable_reason: str | None

    def to_record(self) -> dict[str, Any]:
        """As plain values; money as text."""
        found = self.outlook
        return {
            "zone": self.zone,
            "kind": self.kind,
            "cost": None if found is None else str(found.cost),
            "finish": None if found is None else found.finish,
            "risk": None if found is None else found.risk,
            "why_not": self.unavailable_reason,
        }


Alternatives = tuple[ZoneQuoteSummary, ...]
"""What each zone said, where there was a choice; none: there was none."""

NO_ALTERNATIVES: Alternatives = ()
