"""/v1/quotes: what a job would cost, by the time at which it is finished."""

from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel

from auctune.domain import PriceMenu
from auctune.service.api.access import MarketDep, Owner
from auctune.service.api.errors import ERRORS
from auctune.service.jobs.request import JobRequest
from auctune.service.quotes import SECONDS
from auctune.service.zone.clock import SlotClock

router = APIRouter(prefix="/v1/quotes", tags=["market"], responses=ERRORS)


class QuoteLine(BaseModel):
    """One choice: finished by then, for so much."""

    line: int
    price: str
    finish: float
    start: float
    vendor: str | None
    slots: int


class QuoteAnswer(BaseModel):
    """A menu, earliest finish first, each line cheaper than the one before. It holds nothing."""

    id: str
    object: str = "quote"
    created_at: int
    expires_at: int
    zone: str
    model: str
    training_file: str
    seed: int
    lines: list[QuoteLine]


@router.post("", response_model=QuoteAnswer)
async def create_quote(market: MarketDep, who: Owner, body: JobRequest) -> dict[str, Any]:
    """Ask what a job would cost. A bid is not needed, and does not count."""
    quote = await market.submissions.quote(who, body)
    return {
        "id": quote.id,
        "object": "quote",
        "created_at": int(quote.at),
        "expires_at": int(quote.at + SECONDS),
        "zone": quote.zone,
        "model": body.model,
        "training_file": body.training_file,
        "seed": quote.training.seed,
        "lines": menu_lines(quote.menu, market.zones[quote.zone].clock),
    }


def menu_lines(menu: PriceMenu, clock: SlotClock) -> list[dict[str, Any]]:
    """The lines of a menu, in the real clock's time."""
    return [
        {
            "line": index,
            "price": str(line.price),
            "finish": clock.ends(line.deadline),
            "start": clock.begins(line.schedule.start),
            "vendor": line.schedule.vendor,
            "slots": len(line.schedule.cells),
        }
        for index, line in enumerate(menu.lines)
    ]
