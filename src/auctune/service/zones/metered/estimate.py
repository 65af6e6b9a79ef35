"""What a metered zone says of a job: an estimate, which binds nobody."""

from dataclasses import dataclass
from typing import Any

from auctune.domain import Money
from auctune.service.jobs.timestamps import to_rfc3339
from auctune.service.zones.offer import Outlook


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

    def to_record(self) -> dict[str, Any]:
        """As plain values; money as text."""
        price = self.price_per_pool_second
        return {
            "expected_cost": str(self.expected_cost),
            "p90_cost": str(self.p90_cost),
            "finish": self.finish,
            "finish_p90": self.finish_p90,
            "risk": self.risk,
            "price_per_pool_second": None if price is None else str(price),
            "success_probability": self.success_probability,
        }

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> "Estimate":
        """What `to_record` gave."""
        money = {
            name: None if record[name] is None else Money(record[name])
            for name in ("expected_cost", "p90_cost", "price_per_pool_second")
        }
        return cls(**{**record, **money})


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
    def summary(self) -> Outlook | None:
        """The estimate in the terms that zones compare by."""
        if self.unavailable_reason is not None:
            return None
        found = self.estimate
        return Outlook(found.p90_cost, found.finish_p90, found.risk)

    def to_response(self) -> dict[str, Any]:
        """The estimate, in the real clock's time; no lines."""
        return {"lines": [], "estimate": estimate_view(self.estimate.to_record(), self.cap)}


def estimate_view(record: dict[str, Any], cap: Money | str | None) -> dict[str, Any]:
    """An estimate on record as readers see it: `EstimateView` of the API."""
    return {
        **record,
        "finish_time": to_rfc3339(record["finish"]),
        "finish_p90_time": to_rfc3339(record["finish_p90"]),
        "cap": None if cap is None else str(cap),
        "binding": False,
    }
