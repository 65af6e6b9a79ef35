"""Menus, which are plans at binding prices that gateways offer for a job, and accepted quotes.

A request names a quote, and a line of it if the quote is a menu. What else it contains must be what
was quoted; what it leaves out is taken from the quote. Estimates are not binding: the job is
estimated again when one is accepted, and admitted if that is not worse than quoted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from auctune.domain import InputError, Money, parse_money
from auctune.engine.unix_time import SlotClock, to_rfc3339
from auctune.service.jobs.quotes import Quote, QuoteSummary
from auctune.service.jobs.request import Acceptance, JobRequest
from auctune.service.jobs.terms import implied_cap, max_cost
from auctune.service.zones.core.job import Estimate, EstimateOffer

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


# Names of a job, and what it is logged to, are not part of its quote.
_NAMES = ("suffix", "metadata", "integrations")


def renamed_fields(accepted: Acceptance) -> dict[str, Any]:
    """Return the names in a request that replace those of its quote."""
    return {name: value for name in _NAMES if (value := getattr(accepted, name)) is not None}


def ensure_matches_quote(accepted: Acceptance, quote: Quote, *free: str) -> None:
    """Check that a request contains nothing but what was quoted; fields in `free` may differ."""
    quoted, terms = quote.request, accepted.market
    top = _explicit_fields(accepted, "hyperparameters", "method", "seed", "market", *_NAMES)
    _compare("", top, quoted)
    _compare("", {"seed": accepted.seed}, quote.training)
    _compare(
        "hyperparameters.",
        _explicit_fields(accepted.hyperparameters_used),
        quoted.hyperparameters_used,
    )
    _compare(
        "market.", _explicit_fields(terms, "lora", "zone", "quote", "line", *free), quoted.market
    )
    _compare("market.lora.", _explicit_fields(terms.lora), quoted.market.lora)
    if terms.zone not in (None, quote.zone):
        raise InputError("market.zone", f"{terms.zone!r}", f"{quote.zone!r}, as quoted, or none")


def _compare(place: str, fields: dict[str, Any], quoted: object) -> None:
    for name, value in fields.items():
        expected = getattr(quoted, name)
        if value is not None and value != expected:
            shown = "none" if expected is None else f"{expected!r}, as quoted, or none"
            raise InputError(f"{place}{name}", f"{value!r}", shown)


def _explicit_fields(model: BaseModel, *but: str) -> dict[str, Any]:
    return {name: getattr(model, name) for name in model.model_fields_set if name not in but}


def resolve_line(
    accepted: Acceptance, quote: Quote, lines: Sequence[OfferLine[P_co]]
) -> OfferLine[P_co]:
    """Return the line of a quote that a request accepts; the bid must reach its price."""
    terms = accepted.market
    if terms.line is None or terms.line >= len(lines):
        found = "is missing" if terms.line is None else f"{terms.line}"
        most = len(lines) - 1
        expected = f"0 to {most}" if lines else "another quote: this quote has no lines"
        raise InputError("market.line", found, expected)
    line = lines[terms.line]
    ensure_matches_quote(accepted, quote, "bid")
    if terms.bid is not None and parse_money(terms.bid, "market.bid") < line.price:
        expected = f"at least the line's price, {line.price}, or none"
        raise InputError("market.bid", f"{terms.bid}", expected)
    return line


def quoted_estimate(quote: Quote) -> Estimate:
    """Return the estimate of a metered zone's quote."""
    assert isinstance(quote.offer, EstimateOffer)
    return quote.offer.estimate


def accepted_request(accepted: Acceptance, quote: Quote) -> tuple[JobRequest, Money]:
    """Return the request of an accepted estimate, and its cap.

    The cap is that of the acceptance, or else of the quoted request, be it a bid or a value; where
    neither has one, it is the quoted cost at p90.
    """
    if accepted.market.line is not None:
        raise InputError("market.line", "is given", "none: an estimate has no lines")
    ensure_matches_quote(accepted, quote, "max_cost")
    request = quote.request.model_copy(update=renamed_fields(accepted))
    cap = max_cost(accepted)
    if cap is not None:
        market = request.market.model_copy(update={"max_cost": accepted.market.max_cost})
        request = request.model_copy(update={"market": market})
    if cap is None:
        cap = implied_cap(request)
    return request, quoted_estimate(quote).p90_cost if cap is None else cap


def degradation_reason(quote: Quote, now: Estimate) -> str | None:
    """Return why an estimate is worse than the quoted one, or None.

    It is worse if the cost or the finish at p90, or the risk, is. A finish by the deadline and a
    risk within the request's limit are never worse.
    """
    quoted = quoted_estimate(quote)
    if now.p90_cost > quoted.p90_cost:
        return f"the cost now exceeds {now.p90_cost} with a probability of 0.1"
    if now.finish_p90 > max(quoted.finish_p90, quote.deadline):
        late = to_rfc3339(now.finish_p90)
        return f"the finish is now later than {late} with a probability of 0.1"
    if now.risk > max(quoted.risk, quote.request.market.risk):
        return f"the probability of missing the deadline is now {now.risk:.2f}"
    return None
