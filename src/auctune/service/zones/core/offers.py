"""Offers of zones for a job: sizes of data, offers of vendors, menus, summaries."""

from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from auctune.domain import Money
from auctune.domain.data_size import DataSize
from auctune.service.jobs.timestamps import to_rfc3339
from auctune.service.jobs.training import Training
from auctune.service.zones.core.clock import SlotClock

P_co = TypeVar("P_co", covariant=True)


@dataclass(frozen=True, slots=True)
class VendorOffer:
    """A vendor's offer to repair a data set.

    Attributes:
        vendor: its name.
        price: of the repair.
        seconds: delay that it promises.
        reference: the vendor's id of the offer, if an order has to name it.
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


@dataclass(frozen=True, slots=True)
class QuoteSummary:
    """Cost and finish of a job in a zone, by which zones of all kinds are compared.

    Attributes:
        cost: binding price, or the cost that is not exceeded with probability 0.9.
        finish: unix time by which the job is expected to be done.
        risk: probability in [0, 1] that it is late or not done.
    """

    cost: Money
    finish: float
    risk: float


class Offer(Protocol):
    """Offer of a zone for a job: a menu, or an estimate."""

    @property
    def size(self) -> int:
        """Memory that it takes, in cells of plans."""
        ...

    @property
    def summary(self) -> QuoteSummary | None:
        """Cost and finish of the cheapest plan, or None if there is none."""
        ...

    @property
    def unavailable_reason(self) -> str | None:
        """Reason why there is no summary, or None."""
        ...

    def to_response(self) -> dict[str, Any]:
        """Return the fields of a quote's response that depend on its kind: lines, estimate."""
        ...


@dataclass(frozen=True, slots=True)
class OfferLine(Generic[P_co]):
    """A plan at a binding price.

    Attributes:
        plan: line of the mechanism's menu.
        price: of the plan.
        start: its first slot.
        finish: slot at whose end the job is done.
        num_slots: slots of the plan, by node.
        size: memory that the plan takes, in cells.
        vendor: repairs the data first, or None.
    """

    plan: P_co
    price: Money
    start: int
    finish: int
    num_slots: int
    size: int
    vendor: str | None = None


@dataclass(frozen=True, slots=True)
class MenuOffer:
    """Plans by finish time; a price is binding while its plan is available.

    Attributes:
        lines: earliest finish first, each line cheaper than the one before.
        clock: of the slots.
    """

    lines: tuple[OfferLine[Any], ...]
    clock: SlotClock

    @property
    def size(self) -> int:
        return sum(line.size for line in self.lines)

    @property
    def summary(self) -> QuoteSummary | None:
        if not self.lines:
            return None
        # A job that is not done by then is refunded.
        cheapest = self.lines[-1]
        return QuoteSummary(cheapest.price, self.clock.slot_end(cheapest.finish), 0.0)

    @property
    def unavailable_reason(self) -> str | None:
        return None if self.lines else "it cannot be done by its deadline"

    def to_response(self) -> dict[str, Any]:
        return {
            "lines": [self._line(index, line) for index, line in enumerate(self.lines)],
            "estimate": None,
        }

    def _line(self, index: int, line: OfferLine[Any]) -> dict[str, Any]:
        finish, start = self.clock.slot_end(line.finish), self.clock.slot_start(line.start)
        return {
            "line": index,
            "price": str(line.price),
            "finish": finish,
            "finish_time": to_rfc3339(finish),
            "start": start,
            "start_time": to_rfc3339(start),
            "vendor": line.vendor,
            "slots": line.num_slots,
        }


@dataclass(frozen=True, slots=True)
class ZoneQuote:
    """Offer of a zone for a job.

    Attributes:
        training: resolved settings of the job, with the seed.
        deadline: latest finish that was considered, in unix time.
        offer: a menu, or an estimate.
        notes: about the data, for their owner.
    """

    training: Training
    deadline: float
    offer: Offer
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ZoneQuoteSummary:
    """Offer of one of several zones, as it is recorded with the job.

    Attributes:
        zone: its name.
        kind: of the zone.
        outlook: cost and finish, or None if the zone cannot take the job.
        unavailable_reason: why it cannot, in words, or None.
    """

    zone: str
    kind: str
    outlook: QuoteSummary | None
    unavailable_reason: str | None

    def to_record(self) -> dict[str, Any]:
        """Return the fields as JSON values, money as text."""
        found = self.outlook
        return {
            "zone": self.zone,
            "kind": self.kind,
            "cost": None if found is None else str(found.cost),
            "finish": None if found is None else found.finish,
            "risk": None if found is None else found.risk,
            "unavailable_reason": self.unavailable_reason,
        }


Alternatives = tuple[ZoneQuoteSummary, ...]
"""Offers of all zones that a job was routed among; empty if the request named its zone."""

NO_ALTERNATIVES: Alternatives = ()
