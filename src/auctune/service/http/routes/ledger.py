"""/v1/ledger: what one owes; for operators all accounts."""

import asyncio
import math
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel

from auctune.service.event_writer import from_minor_units
from auctune.service.http.auth import CurrentUser, OperatorUser, ServiceDep
from auctune.service.http.errors import ERRORS
from auctune.service.ledger import user_account

router = APIRouter(prefix="/v1/ledger", tags=["money"], responses=ERRORS)
_SPANS = 96


class EntryResponse(BaseModel):
    """A movement on an account; what is owed to the market is positive."""

    id: str
    object: str = "entry"
    account: str
    amount: str
    job: str | None
    created_at: int


class EntryPage(BaseModel):
    """Entries, newest first."""

    object: str = "list"
    data: list[EntryResponse]
    has_more: bool


class Statement(BaseModel):
    """What a user owes, and what is left of the budget."""

    object: str = "statement"
    user: str
    balance: str
    budget_left: str | None


class Balances(BaseModel):
    """Balances of all accounts; they sum to zero."""

    object: str = "balances"
    accounts: dict[str, str]


class History(BaseModel):
    """What moved on the market's own accounts, span by span; users' accounts are left out.

    Span n began at `since` + n * `step_seconds`; the last one is under way.
    """

    object: str = "history"
    since: int
    step_seconds: int
    spans: int
    accounts: dict[str, list[str]]


@router.get("", response_model=Statement)
async def statement(service: ServiceDep, who: CurrentUser) -> dict[str, Any]:
    """What one owes."""
    account = user_account(who.user)
    found = await asyncio.to_thread(service.pages.balances, [account])
    left = service.spending.remaining(who.user)
    return {
        "object": "statement",
        "user": who.user,
        "balance": str(from_minor_units(found.get(account, 0))),
        "budget_left": None if left is None else str(left),
    }


@router.get("/entries", response_model=EntryPage)
async def entries(
    service: ServiceDep,
    who: CurrentUser,
    after: Annotated[str | None, Query(pattern=r"^entry-\d{1,18}$")] = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> dict[str, Any]:
    """Movements on one's own account."""
    last = None if after is None else int(after.removeprefix("entry-"))
    page = await asyncio.to_thread(service.pages.entries, user_account(who.user), limit, last)
    return {
        "object": "list",
        "data": [
            {
                "id": f"entry-{row.id}",
                "object": "entry",
                "account": row.account,
                "amount": str(from_minor_units(row.amount)),
                "job": row.job,
                "created_at": int(row.at),
            }
            for row in page.items
        ],
        "has_more": page.has_more,
    }


@router.get("/balances", response_model=Balances)
async def balances(service: ServiceDep, who: OperatorUser) -> dict[str, Any]:
    """All accounts."""
    found = await asyncio.to_thread(service.pages.balances)
    return {
        "object": "balances",
        "accounts": {name: str(from_minor_units(steps)) for name, steps in found.items()},
    }


@router.get("/history", response_model=History)
async def history(
    service: ServiceDep,
    who: OperatorUser,
    hours: Annotated[float, Query(gt=0, le=24 * 366)] = 24.0,
) -> dict[str, Any]:
    """What moved on the market's own accounts in the last hours."""
    until = int(service.now()) + 1
    step = max(1, math.ceil(hours * 3600 / _SPANS))
    since = max(0, until - step * _SPANS)
    spans = math.ceil((until - since) / step)
    moved = await asyncio.to_thread(service.pages.account_history, since, step)
    accounts: dict[str, list[str]] = {}
    for account, span, steps in moved:
        amounts = accounts.setdefault(account, ["0"] * spans)
        # A clock that was set back left entries of a time to come.
        if span < spans:
            amounts[span] = str(from_minor_units(steps))
    return {
        "object": "history",
        "since": since,
        "step_seconds": step,
        "spans": spans,
        "accounts": accounts,
    }
