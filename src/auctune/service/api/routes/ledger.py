"""/v1/ledger: what one owes; for operators all accounts."""

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel

from auctune.service.api.access import MarketDep, Operator, Owner
from auctune.service.api.errors import ERRORS
from auctune.service.ledger.entry import user_account
from auctune.service.recorder import from_steps

router = APIRouter(prefix="/v1/ledger", tags=["money"], responses=ERRORS)


class EntryView(BaseModel):
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
    data: list[EntryView]
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


@router.get("", response_model=Statement)
async def statement(market: MarketDep, who: Owner) -> dict[str, Any]:
    """What one owes."""
    account = user_account(who.user)
    found = await asyncio.to_thread(market.pages.balances, [account])
    left = market.spending.left(who.user)
    return {
        "object": "statement",
        "user": who.user,
        "balance": str(from_steps(found.get(account, 0))),
        "budget_left": None if left is None else str(left),
    }


@router.get("/entries", response_model=EntryPage)
async def entries(
    market: MarketDep,
    who: Owner,
    after: Annotated[str | None, Query(pattern=r"^entry-\d{1,18}$")] = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> dict[str, Any]:
    """Movements on one's own account."""
    last = None if after is None else int(after.removeprefix("entry-"))
    page = await asyncio.to_thread(market.pages.entries, user_account(who.user), limit, last)
    return {
        "object": "list",
        "data": [
            {
                "id": f"entry-{row.id}",
                "object": "entry",
                "account": row.account,
                "amount": str(from_steps(row.amount)),
                "job": row.job,
                "created_at": int(row.at),
            }
            for row in page.items
        ],
        "has_more": page.has_more,
    }


@router.get("/balances", response_model=Balances)
async def balances(market: MarketDep, who: Operator) -> dict[str, Any]:
    """All accounts."""
    found = await asyncio.to_thread(market.pages.balances)
    return {
        "object": "balances",
        "accounts": {name: str(from_steps(steps)) for name, steps in found.items()},
    }
