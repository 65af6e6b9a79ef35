"""/v1/quotes: prices of a job by finish time, or an estimate of its cost."""

from fastapi import APIRouter, Request
from pydantic import BaseModel

from auctune.service.accounts.registry import Principal
from auctune.service.http.auth import CurrentUser, ServiceDep
from auctune.service.http.errors import ERRORS, not_found
from auctune.service.http.requests import body_schema, read_body
from auctune.service.http.schemas import AlternativeResponse, DefaultTerm, EstimateResponse
from auctune.service.http.serializers import JSON, quote_view
from auctune.service.jobs.request import JobRequest
from auctune.service.service import Service

router = APIRouter(prefix="/v1/quotes", tags=["market"], responses=ERRORS)


class QuoteLine(BaseModel):
    """A price for a finish time; available until the plan's `start`."""

    line: int
    price: str
    finish: float
    finish_time: str
    start: float
    start_time: str
    vendor: str | None
    slots: int


class QuoteResponse(BaseModel):
    """A menu, earliest finish first, each line cheaper than the one before. It reserves nothing.

    A metered zone has no lines, but an estimate, which is not binding.

    If the request names no zone and several have the model, the quote is that of the default zone,
    and `alternatives` lists the offers of all of them.

    `notes` state what training will leave out of the data, as those of a job do.

    `default_terms` are terms that the request did not state, by field of `market`.

    Times are unix seconds, and RFC 3339 in fields named `*_time`.
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
    default_terms: dict[str, DefaultTerm]
    notes: list[str]


# FastAPI would list all errors of a body, which can take seconds.
@router.post("", response_model=QuoteResponse, openapi_extra=body_schema(JobRequest))
async def ask_quote(service: ServiceDep, who: CurrentUser, request: Request) -> JSON:
    """Price a job. A bid is optional and has no effect."""
    return await create_quote(service, who, read_body(await request.body(), JobRequest))


async def create_quote(service: Service, who: Principal, body: JobRequest) -> JSON:
    """Create a quote, and return it as an API object."""
    return quote_view(await service.submissions.quote(who, body))


@router.get("/{quote_id}", response_model=QuoteResponse)
async def retrieve_quote(service: ServiceDep, who: CurrentUser, quote_id: str) -> JSON:
    """Return a quote of the last hour."""
    quote = service.quotes.get(quote_id, who.user)
    if quote is None:
        raise not_found("quote", quote_id)
    return quote_view(quote)
