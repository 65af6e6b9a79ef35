"""/v1/users, /v1/teams, /v1/keys: for operators."""

from collections.abc import Callable
from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field, StringConstraints

from auctune.domain import parse_money
from auctune.service.accounts.keys import Role
from auctune.service.accounts.registry import Account, Budget, KeyRecord
from auctune.service.http.auth import OperatorUser, ServiceDep
from auctune.service.http.errors import ERRORS, ApiError, not_found
from auctune.service.jobs.erasure import StillOpenError, erase
from auctune.service.jobs.request import FORBID_EXTRA
from auctune.service.service import Service

router = APIRouter(prefix="/v1", tags=["people"], responses=ERRORS)
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]


class BudgetBody(BaseModel):
    """What may be paid within a span of time."""

    model_config = FORBID_EXTRA

    amount: Annotated[str, StringConstraints(max_length=32)]
    seconds: Annotated[float, Field(gt=0, le=1e9, strict=True)]


class TeamBody(BaseModel):
    """A team."""

    model_config = FORBID_EXTRA

    id: Name
    budget: BudgetBody | None = None


class UserBody(BaseModel):
    """A user."""

    model_config = FORBID_EXTRA

    id: Name
    team: Name | None = None
    budget: BudgetBody | None = None


class KeyBody(BaseModel):
    """A key to be made."""

    model_config = FORBID_EXTRA

    user: Name
    role: Literal["user", "operator", "vendor"] = "user"
    name: Annotated[str, StringConstraints(max_length=64)] = ""


class AccountResponse(BaseModel):
    """A user or a team; spent and left of its own budget, within its span."""

    id: str
    object: str
    team: str | None
    budget: BudgetBody | None
    budget_spent: str | None
    budget_left: str | None


class KeyResponse(BaseModel):
    """A key; its secret is shown once, when it is made."""

    id: str
    object: str = "key"
    prefix: str
    user: str
    role: str
    name: str
    created_at: int
    revoked_at: int | None
    secret: str | None = None


class ErasureResponse(BaseModel):
    """How much of a user's was erased."""

    user: str
    object: str = "erased"
    keys: int
    webhooks: int
    jobs: int
    files: int


class AccountPage(BaseModel):
    """All of them."""

    object: str = "list"
    data: list[AccountResponse]
    has_more: bool = False


class KeyPage(BaseModel):
    """All keys."""

    object: str = "list"
    data: list[KeyResponse]
    has_more: bool = False


@router.post("/teams", response_model=AccountResponse)
async def put_team(service: ServiceDep, who: OperatorUser, body: TeamBody) -> dict[str, Any]:
    """Add a team, or change its budget; null takes it away, and left out it stays."""
    known = service.directory.team(body.id)
    return _account(service, await service.put_team(body.id, _requested_budget(body, known)))


@router.get("/teams", response_model=AccountPage)
async def list_teams(service: ServiceDep, who: OperatorUser) -> dict[str, Any]:
    """All teams."""
    return _page([_account(service, team) for team in service.directory.teams()])


@router.post("/users", response_model=AccountResponse)
async def put_user(service: ServiceDep, who: OperatorUser, body: UserBody) -> dict[str, Any]:
    """Add a user, or change its team and budget; null takes them away, and left out they stay."""
    known = service.directory.user(body.id)
    is_said = "team" in body.model_fields_set
    team = body.team if known is None or is_said else known.team
    return _account(service, await service.put_user(body.id, team, _requested_budget(body, known)))


@router.get("/users", response_model=AccountPage)
async def list_users(service: ServiceDep, who: OperatorUser) -> dict[str, Any]:
    """All users."""
    return _page([_account(service, user) for user in service.directory.users()])


@router.delete("/users/{user_id}/data", response_model=ErasureResponse)
async def erase_user(service: ServiceDep, who: OperatorUser, user_id: str) -> dict[str, Any]:
    """Erase a user's files, checkpoints, webhooks, metadata and keys; the books stay."""
    if service.directory.user(user_id) is None:
        raise not_found("user", user_id)
    _ensure_operator_remains(service, lambda key: key.user == user_id)
    try:
        return {"user": user_id, "object": "erased", **await erase(service, user_id)}
    except StillOpenError as error:
        raise ApiError(400, str(error), "jobs_open", "user_id") from None


@router.post("/keys", response_model=KeyResponse)
async def add_key(service: ServiceDep, who: OperatorUser, body: KeyBody) -> dict[str, Any]:
    """Make a key; its secret is in this answer, and in no other."""
    record, secret = await service.directory.add_key(body.user, Role(body.role), body.name)
    return {**_key(record), "secret": secret}


@router.get("/keys", response_model=KeyPage)
async def list_keys(service: ServiceDep, who: OperatorUser) -> dict[str, Any]:
    """All keys."""
    return _page([_key(record) for record in service.directory.all_keys()])


@router.delete("/keys/{key_id}", response_model=KeyResponse)
async def revoke_key(service: ServiceDep, who: OperatorUser, key_id: str) -> dict[str, Any]:
    """End a key, at once."""
    _ensure_operator_remains(service, lambda key: key.id == key_id)
    record = await service.directory.revoke_key(key_id)
    if record is None:
        raise not_found("key", key_id)
    return _key(record)


def _ensure_operator_remains(service: Service, ends: Callable[[KeyRecord], bool]) -> None:
    """That an operator is left when some keys end: nobody else could make a new one."""
    keys = service.directory.all_keys()
    operators = [key for key in keys if key.role is Role.OPERATOR and key.revoked_at is None]
    if operators and all(map(ends, operators)):
        raise ApiError(
            400, "this is the last key of an operator; make another one first", "last_operator"
        )


def _page(data: list[dict[str, Any]]) -> dict[str, Any]:
    return {"object": "list", "data": data, "has_more": False}


def _requested_budget(body: TeamBody | UserBody, known: Account | None) -> Budget | None:
    if known is None or "budget" in body.model_fields_set:
        return _budget(body.budget)
    return known.budget


def _budget(body: BudgetBody | None) -> Budget | None:
    if body is None:
        return None
    return Budget(parse_money(body.amount, "budget.amount"), body.seconds)


def _account(service: Service, account: Account) -> dict[str, Any]:
    budget = account.budget
    shown = None if budget is None else {"amount": str(budget.amount), "seconds": budget.seconds}
    spent, left = service.spending.of(account) or (None, None)
    return {
        "id": account.id,
        "object": account.kind,
        "team": account.team,
        "budget": shown,
        "budget_spent": None if spent is None else str(spent),
        "budget_left": None if left is None else str(left),
    }


def _key(record: KeyRecord) -> dict[str, Any]:
    revoked = record.revoked_at
    return {
        "id": record.id,
        "object": "key",
        "prefix": record.prefix,
        "user": record.user,
        "role": record.role.value,
        "name": record.name,
        "created_at": int(record.created_at),
        "revoked_at": None if revoked is None else int(revoked),
    }
