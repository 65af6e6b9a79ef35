"""Offers of zones for a job, and their summaries, by which zones are compared."""

from dataclasses import dataclass
from typing import Any, Protocol

from auctune.domain import Money
from auctune.service.jobs.training import Training


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
class ZoneQuote:
    """Offer of a zone for a job: a menu or an estimate.

    `deadline` is the latest finish that was considered; `notes` are about the data.
    """

    training: Training
    deadline: float
    offer: Offer
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ZoneQuoteSummary:
    """Offer of one of several zones, as it is recorded with the job, or why there is none."""

    zone: str
    kind: str
    outlook: QuoteSummary | None
    unavailable_reason: str | None

    def to_record(self) -> dict[str, Any]:
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
