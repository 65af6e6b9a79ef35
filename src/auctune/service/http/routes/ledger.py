"""/v1/ledger: balance and entries of a user; all accounts for operators."""

import math
from datetime import UTC, datetime
from typing import Annotated

import orjson
from fastapi import APIRouter, Query
from fastapi.responses import Response, StreamingResponse
from pydantic import BaseModel

from auctune.domain.money import format_money
from auctune.service import focus
from auctune.service.accounts.registry import Principal
from auctune.service.event_writer import from_minor_units
from auctune.service.fair_queue import in_thread
from auctune.service.http.errors import ERRORS
from auctune.service.http.requests import CurrentUser, OperatorUser, ServiceDep
from auctune.service.http.schemas import Page
from auctune.service.http.serializers import JSON, json_in_thread, page_view
from auctune.service.identifiers import ENTRY_ID
from auctune.service.ledger import user_account
from auctune.service.service import Service
from auctune.service.storage.event_log import EventType
from auctune.service.zones.core.events import StorageUsed, adapter

router = APIRouter(prefix="/v1/ledger", tags=["money"], responses=ERRORS)
_SPANS = 96


class EntryResponse(BaseModel):
    """An entry of an account; amounts owed to the market are positive.

    `memo` says what an entry about no job is for.
    """

    id: str
    object: str = "entry"
    account: str
    amount: str
    job: str | None
    memo: str | None
    created_at: int


class BudgetAlertResponse(BaseModel):
    """A share of a budget was reached; `spent` is the amount then, in the last `seconds`."""

    id: str
    owner: str
    percent: int
    at: int
    spent: str
    amount: str
    seconds: float


class StorageResponse(BaseModel):
    """Stored files of a user, their price, and after how many days they are deleted, or null."""

    files: int
    bytes: int
    price_per_gb_month: str
    data_days: float | None
    results_days: float | None


class Statement(BaseModel):
    """Balance of a user, and what remains of its budget, its team's and the key's.

    `budget_alerts` are those of the present period, `storage` is now.
    """

    object: str = "statement"
    user: str
    balance: str
    budget_remaining: str | None
    budget_alerts: list[BudgetAlertResponse]
    storage: StorageResponse


class Balances(BaseModel):
    """Balances of all accounts; their sum is zero."""

    object: str = "balances"
    accounts: dict[str, str]


class History(BaseModel):
    """Amounts by time span on the accounts of the market, without those of users.

    Span n begins at `since` + n * `step_seconds`; the last one is in progress.
    """

    object: str = "history"
    since: int
    step_seconds: int
    spans: int
    accounts: dict[str, list[str]]


@router.get("", response_model=Statement)
async def statement(service: ServiceDep, who: CurrentUser) -> JSON:
    """Return the user's balance and remaining budget."""
    account = user_account(who.user)
    balances_by_account = await in_thread(service.queries.balances, [account])
    accounts = service.spending.accounts(who.user, who.key)
    alerts = service.spending.alerts.of(accounts, service.now())
    remaining = service.spending.remaining(who.user, who.key)
    return {
        "object": "statement",
        "user": who.user,
        "balance": str(from_minor_units(balances_by_account.get(account, 0))),
        "budget_remaining": None if remaining is None else str(remaining),
        "budget_alerts": [alert.view() for alert in alerts],
        "storage": await storage(service, who),
    }


async def storage(service: Service, who: Principal) -> JSON:
    """Return what a user has stored, and the operator's policy."""
    totals = await in_thread(service.queries.file_totals, who.user)
    return {
        "files": totals.count,
        "bytes": totals.bytes,
        "price_per_gb_month": format_money(service.storage.price),
        "data_days": service.files.policy.data_days,
        "results_days": service.files.policy.results_days,
    }


@router.get("/entries", response_model=Page[EntryResponse])
async def entries(
    service: ServiceDep,
    who: CurrentUser,
    after: Annotated[str | None, Query(pattern=f"^{ENTRY_ID}$")] = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> Response:
    """List the entries of the user's account, newest first."""
    return await json_in_thread(lambda: read_entries(service, who, limit, after))


def read_entries(service: Service, who: Principal, limit: int, after: str | None) -> JSON:
    """Return a page of the entries of the user's account, newest first."""
    last = None if after is None else int(after.removeprefix("entry-"))
    page = service.queries.entries(user_account(who.user), limit, last)
    data = [
        {
            "id": f"entry-{row.id}",
            "object": "entry",
            "account": row.account,
            "amount": str(from_minor_units(row.amount)),
            "job": row.job,
            "memo": None if row.event_type is None else _memo(row.event_type, row.event_body),
            "created_at": int(row.at),
        }
        for row in page.items
    ]
    return page_view(data, has_more=page.has_more)


def _memo(event: str, body: bytes) -> str | None:
    match event:
        case EventType.TOKENS_USED:
            return f"answers of {orjson.loads(body)['model']}"
        case EventType.STORAGE_USED:
            used: StorageUsed = adapter(StorageUsed).validate_json(body)
            day = datetime.fromtimestamp(used.since, UTC).date()
            return f"storage of {used.mean_gb:.3g} GB on {day}"
        case _:
            return None


@router.get("/balances", response_model=Balances)
async def balances(service: ServiceDep, who: OperatorUser) -> JSON:
    """Return the balances of all accounts."""
    amounts = await in_thread(service.queries.balances)
    return {
        "object": "balances",
        "accounts": {name: str(from_minor_units(units)) for name, units in amounts.items()},
    }


@router.get("/history", response_model=History)
async def history(
    service: ServiceDep,
    who: OperatorUser,
    hours: Annotated[float, Query(gt=0, le=24 * 366)] = 24.0,
) -> JSON:
    """Return the amounts on the accounts of the market in the last hours."""
    until = int(service.now()) + 1
    step = max(1, math.ceil(hours * 3600 / _SPANS))
    since = max(0, until - step * _SPANS)
    spans = math.ceil((until - since) / step)
    rows = await in_thread(service.queries.account_history, since, step)
    accounts: dict[str, list[str]] = {}
    for account, span, units in rows:
        amounts = accounts.setdefault(account, ["0"] * spans)
        # Entries lie in the future if the clock was set back.
        if span < spans:
            amounts[span] = str(from_minor_units(units))
    return {
        "object": "history",
        "since": since,
        "step_seconds": step,
        "spans": spans,
        "accounts": accounts,
    }


@router.get(
    "/focus",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/csv": {}}, "description": "A row for each charge"}},
)
async def focus_file(
    service: ServiceDep, who: CurrentUser, month: str | None = None
) -> StreamingResponse:
    """Return the costs of a month (UTC) as a FOCUS 1.0 file; of all users to operators.

    The default is the current month so far.
    """
    wanted = focus.Month.containing(service.now()) if month is None else focus.Month.parse(month)
    parts = focus.export(service, wanted, None if who.is_operator else who.user)
    return StreamingResponse(
        parts,
        media_type="text/csv; charset=utf-8",
        headers={
            "Content-Disposition": f'attachment; filename="focus-{wanted}.csv"',
            "Cache-Control": "no-store",
        },
    )
