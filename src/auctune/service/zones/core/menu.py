"""Menus: plans at binding prices, which gateways offer for a job."""

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from auctune.domain import Money
from auctune.service.jobs.offers import QuoteSummary
from auctune.service.jobs.timestamps import to_rfc3339
from auctune.service.zones.core.clock import SlotClock

P_co = TypeVar("P_co", covariant=True)


@dataclass(frozen=True, slots=True)
class OfferLine(Generic[P_co]):
    """A plan at a binding price.

    Attributes:
        plan: line of the mechanism's menu.
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
    """Plans by finish time; a price is binding while its plan is available."""

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
