"""/v1/quotes: what a job would cost, by the time at which it is finished."""

from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel

from auctune.service.api.access import MarketDep, Owner
from auctune.service.api.answers import AlternativeView, EstimateView
from auctune.service.api.errors import ERRORS, not_found
from auctune.service.api.views import quote_view
from auctune.service.jobs.request import JobRequest

router = APIRouter(prefix="/v1/quotes", tags=["market"], responses=ERRORS)


class QuoteLine(BaseModel):
    """One choice: finished by then, for so much; to be had until its plan's `start`."""

    line: int
    price: str
    finish: float
    finish_time: str
    start: float
    start_time: str
    vendor: str | None
    slots: int


class QuoteAnswer(BaseModel):
    """A menu, earliest finish first, each line cheaper than the one before. It holds nothing.

    A metered zone has no lines, but an estimate: nothing of it is accepted, the job is asked for.

    Where no zone was named and several have the model, it is that of the default one, and
    `alternatives` says what each of them said; else they are empty.

    `notes` say what training will lose of the data, as those of a job do.

    Each moment stands in it as unix seconds, and as `*_time` in RFC 3339.
    """

    id: str
    object: str = "quote"
    created_at: int
    expires_at: int
    expires_time: str
    zone: str
    kind: str
    model: str
    training_file: str
    seed: int
    lines: list[QuoteLine]
    estimate: EstimateView | None
    alternatives: list[AlternativeView]
    notes: list[str]


@router.post("", response_model=QuoteAnswer)
async def create_quote(market: MarketDep, who: Owner, body: JobRequest) -> dict[str, Any]:
    """Ask what a job would cost. A bid is not needed, and does not count."""
    quote = await market.submissions.quote(who, body)
    return quote_view(quote)


@router.get("/{quote_id}", response_model=QuoteAnswer)
async def retrieve_quote(market: MarketDep, who: Owner, quote_id: str) -> dict[str, Any]:
    """A quote of the last hour, as it was shown."""
    quote = market.quotes.get(quote_id, who.user)
    if quote is None:
        raise not_found("quote", quote_id)
    return quote_view(quote)
