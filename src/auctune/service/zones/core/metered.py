"""Metered zones: event types, meters and estimates.

| kind | body |
| --- | --- |
| job.metered | slot, amount, cost, and what is of the zone's kind |

`slot` numbers what is charged of a job, rising; `amount` is what its owner is charged, `cost` what
the service itself pays for it, both as text. A decision of a metered zone has max_cost and
estimate.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pydantic_core import to_jsonable_python

from auctune.domain import Money
from auctune.domain.money import ZERO
from auctune.service.jobs.timestamps import to_rfc3339
from auctune.service.ledger import Entry, hold, meter, refund_metered, release
from auctune.service.zones.core.offers import QuoteSummary


class MeteredEventType(StrEnum):
    """What happened."""

    METERED = "job.metered"


# The meter of a job: its cap and its charges.


@dataclass
class Meter:
    """Of one job.

    Attributes:
        owner: user id.
        cap: the most that is charged.
        charged: so far.
        next_slot: all numbers below it are charged.
    """

    owner: str
    cap: Money
    charged: Money = ZERO
    next_slot: int = 0

    @property
    def remaining(self) -> Money:
        """What is still set aside."""
        return self.cap - self.charged

    def is_charged(self, slot: int) -> bool:
        """Whether what has this number is on record already."""
        return slot < self.next_slot

    def begin(self) -> tuple[Entry, ...]:
        """The job is admitted: its cap is set aside."""
        return hold(self.owner, self.cap)

    def charge(self, slot: int, amount: Money) -> tuple[Entry, ...]:
        """Something was used.

        Args:
            slot: its number, above all before it.
            amount: at most what is left.
        """
        assert not self.is_charged(slot), slot
        assert ZERO <= amount <= self.remaining, (amount, self.remaining)
        self.next_slot = slot + 1
        self.charged += amount
        return meter(self.owner, amount)

    def lower(self, held: Money) -> tuple[Entry, ...]:
        """Lower the cap, so that no more than `held` is still set aside; release the rest."""
        assert ZERO <= held <= self.remaining, (held, self.remaining)
        released, self.cap = self.remaining - held, self.charged + held
        return release(self.owner, released)

    def end(self, *, refunded: bool) -> tuple[Entry, ...]:
        """Release what was not used; give back what was if the service failed the job."""
        back = refund_metered(self.owner, self.charged) if refunded else ()
        return self.lower(ZERO) + back


# Estimates, which are not binding.


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a job is likely to come to.

    Attributes:
        expected_cost: the mean.
        p90_cost: not exceeded with a probability of 0.9.
        finish: unix time by which it is done as likely as not.
        finish_p90: likewise with a probability of 0.9.
        risk: probability in [0, 1] that it is late, or not done.
        price_per_pool_second: of what is sold by time on a pool; none: it is sold otherwise.
        success_probability: that a loss target is met by its deadline; none: there is none.
    """

    expected_cost: Money
    p90_cost: Money
    finish: float
    finish_p90: float
    risk: float
    price_per_pool_second: Money | None = None
    success_probability: float | None = None


@dataclass(frozen=True, slots=True)
class EstimateOffer:
    """An estimate as an offer: there are no lines of it to accept.

    Attributes:
        estimate: of the job.
        cap: the most that its owner would pay; none: it does not say.
    """

    estimate: Estimate
    cap: Money | None

    @property
    def size(self) -> int:
        """It has no plans."""
        return 0

    @property
    def unavailable_reason(self) -> str | None:
        """Whether the owner's cap is too low."""
        need = self.estimate.p90_cost
        if self.cap is None or need <= self.cap:
            return None
        return f"it may cost {need}, above the cap of {self.cap}"

    @property
    def summary(self) -> QuoteSummary | None:
        """The estimate in the terms that zones compare by."""
        if self.unavailable_reason is not None:
            return None
        found = self.estimate
        return QuoteSummary(found.p90_cost, found.finish_p90, found.risk)

    def to_response(self) -> dict[str, Any]:
        """The estimate, in the real clock's time; no lines."""
        return {"lines": [], "estimate": estimate_view(to_jsonable_python(self.estimate), self.cap)}


def estimate_view(record: dict[str, Any], cap: Money | str | None) -> dict[str, Any]:
    """An estimate on record as readers see it: `EstimateView` of the API."""
    return {
        **record,
        "finish_time": to_rfc3339(record["finish"]),
        "finish_p90_time": to_rfc3339(record["finish_p90"]),
        "cap": None if cap is None else str(cap),
        "binding": False,
    }
