"""Meters of jobs that are charged for what they use, and estimates of their cost."""

from dataclasses import dataclass
from typing import Any

from pydantic_core import to_jsonable_python

from auctune.domain import Money
from auctune.domain.money import ZERO
from auctune.service.jobs.offers import QuoteSummary
from auctune.service.jobs.timestamps import to_rfc3339
from auctune.service.ledger import Entry, hold, meter, refund_metered, release

SLOWER_THAN_SOLD = (
    "the machine was slower than sold; what it missed is not charged, and neither is the job if it "
    "ends without an adapter for this"
)
"""Note for the owner of a metered job whose slots the service missed."""


@dataclass
class Meter:
    """Charges of one job, up to its cap. Methods return the ledger entries of what they do.

    Attributes:
        cap: maximum of all charges.
        next_slot: charges with lower numbers are recorded.
    """

    owner: str
    cap: Money
    charged: Money = ZERO
    next_slot: int = 0

    @property
    def remaining(self) -> Money:
        return self.cap - self.charged

    def is_charged(self, slot: int) -> bool:
        return slot < self.next_slot

    def begin(self) -> tuple[Entry, ...]:
        return hold(self.owner, self.cap)

    def charge(self, slot: int, amount: Money) -> tuple[Entry, ...]:
        """Charge an amount, at most `remaining`, for the slot with a number above all before it."""
        assert not self.is_charged(slot), slot
        assert ZERO <= amount <= self.remaining, (amount, self.remaining)
        self.next_slot = slot + 1
        self.charged += amount
        return meter(self.owner, amount)

    def give_back(self, amount: Money) -> tuple[Entry, ...]:
        """Refund a part of the charges, for what the service did not do; it is on hold again."""
        assert ZERO <= amount <= self.charged, (amount, self.charged)
        self.charged -= amount
        return refund_metered(self.owner, amount) + hold(self.owner, amount)

    def lower(self, held: Money) -> tuple[Entry, ...]:
        """Lower the cap so that `held` remains on hold; release the rest."""
        assert ZERO <= held <= self.remaining, (held, self.remaining)
        released, self.cap = self.remaining - held, self.charged + held
        return release(self.owner, released)

    def end(self, *, refunded: bool) -> tuple[Entry, ...]:
        """Release what was not charged; refund what was if the service failed the job."""
        back = refund_metered(self.owner, self.charged) if refunded else ()
        return self.lower(ZERO) + back


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimated cost and finish of a job. Not binding.

    Attributes:
        p90_cost: cost that is not exceeded with probability 0.9.
        finish: median of the finish, in unix time.
        finish_p90: finish that is kept with probability 0.9, in unix time.
        risk: probability in [0, 1] that the job is late or not done.
        price_per_pool_second: price of a pool's time, or None in zones without a pool.
        success_probability: probability that a loss target is met by the deadline, or None.
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
    """An estimate as an offer; it has no lines."""

    estimate: Estimate
    cap: Money | None

    @property
    def size(self) -> int:
        return 0

    @property
    def unavailable_reason(self) -> str | None:
        need = self.estimate.p90_cost
        if self.cap is None or need <= self.cap:
            return None
        return f"it may cost {need}, above the cap of {self.cap}"

    @property
    def summary(self) -> QuoteSummary | None:
        if self.unavailable_reason is not None:
            return None
        found = self.estimate
        return QuoteSummary(found.p90_cost, found.finish_p90, found.risk)

    def to_response(self) -> dict[str, Any]:
        return {"lines": [], "estimate": estimate_view(to_jsonable_python(self.estimate), self.cap)}


def reserved_amount(cap: Money, remaining: Money | None) -> Money:
    """Return the maximum that a job can be charged: it is put on hold at admission."""
    return cap if remaining is None else min(cap, remaining)


def estimate_view(record: dict[str, Any], cap: Money | str | None) -> dict[str, Any]:
    """Return a recorded estimate as `EstimateResponse` of the API."""
    return {
        **record,
        "finish_time": to_rfc3339(record["finish"]),
        "finish_p90_time": to_rfc3339(record["finish_p90"]),
        "cap": None if cap is None else str(cap),
        "binding": False,
    }
