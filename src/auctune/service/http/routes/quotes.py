"""/v1/quotes: what a job would cost, by the time at which it is finished."""

from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel

from auctune.service.accounts.keys import Principal
from auctune.service.http.auth import CurrentUser, ServiceDep
from auctune.service.http.errors import ERRORS, not_found
from auctune.service.http.routes.jobs import described_body, read_body
from auctune.service.http.schemas import AlternativeResponse, EstimateResponse
from auctune.service.http.serializers import quote_view
from auctune.service.jobs.request import JobRequest
from auctune.service.service import Service

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


class QuoteResponse(BaseModel):
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
    estimate: EstimateResponse | None
    alternatives: list[AlternativeResponse]
    notes: list[str]


# The framework would list all that is wrong with a body, which may take seconds.
@router.post("", response_model=QuoteResponse, openapi_extra=described_body(JobRequest))
async def ask_quote(service: ServiceDep, who: CurrentUser, request: Request) -> dict[str, Any]:
    """Ask what a job would cost. A bid is not needed, and does not count."""
    return await create_quote(service, who, read_body(await request.body(), JobRequest))


async def create_quote(service: Service, who: Principal, body: JobRequest) -> dict[str, Any]:
    """Return a new quote, as the API shows it."""
    return quote_view(await service.submissions.quote(who, body))


@router.get("/{quote_id}", response_model=QuoteResponse)
async def retrieve_quote(service: ServiceDep, who: CurrentUser, quote_id: str) -> dict[str, Any]:
    """A quote of the last hour, as it was shown."""
    quote = service.quotes.get(quote_id, who.user)
    if quote is None:
        raise not_found("quote", quote_id)
    return quote_view(quote)
