"""Accepting an estimate: the same job in that zone, metered, for at most a cap.

An estimate binds nobody, so what is accepted is the asking: the same question is put once more, and
the job is taken if the answer is no worse than what was shown. It is worse if the cost or the
moment that is kept with a probability of 0.9 is, or the risk; a moment by the deadline and a risk
within its owner's limit are not worse, whatever was shown.
"""

from auctune.domain import InputError, Money
from auctune.service.jobs.quotes import Quote
from auctune.service.jobs.request import Acceptance, JobRequest
from auctune.service.jobs.terms import implied_cap, max_cost
from auctune.service.jobs.timestamps import to_rfc3339
from auctune.service.zones.as_quoted import check_same, own_names
from auctune.service.zones.metered.estimate import Estimate, EstimateOffer


def shown_estimate(quote: Quote) -> Estimate:
    """The estimate of a metered zone's quote."""
    assert isinstance(quote.offer, EstimateOffer)
    return quote.offer.estimate


def accepted_terms(accepted: Acceptance, quote: Quote) -> tuple[JobRequest, Money]:
    """The request that was quoted, under the names that it is given now, and its cap.

    The cap is what is said now, or was said then, be it as a bid or a value; where nothing was, it
    is what the job was shown to cost at p90.

    Raises:
        InputError: if the request says something else than what was quoted, or names a line.
    """
    if accepted.market.line is not None:
        raise InputError("market.line", "is given", "none: an estimate has no lines")
    check_same(accepted, quote, "max_cost")
    request = quote.request.model_copy(update=own_names(accepted))
    cap = max_cost(accepted)
    if cap is None:
        cap = implied_cap(request)
    return request, shown_estimate(quote).p90_cost if cap is None else cap


def why_worse(quote: Quote, now: Estimate) -> str | None:
    """Why an estimate is worse than the one that was shown; none: it is not."""
    shown = shown_estimate(quote)
    if now.p90_cost > shown.p90_cost:
        return f"with a probability of 0.1 it costs more than {now.p90_cost} by now"
    if now.finish_p90 > max(shown.finish_p90, quote.deadline):
        late = to_rfc3339(now.finish_p90)
        return f"with a probability of 0.1 it is done later than {late} by now"
    if now.risk > max(shown.risk, quote.request.market.risk):
        return f"by now it is late, or not done, with a probability of {now.risk:.2f}"
    return None
