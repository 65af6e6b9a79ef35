"""/v1/users, /v1/teams and /v1/keys, for operators."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Literal

from fastapi import APIRouter
from pydantic import BaseModel, BeforeValidator, Field, StringConstraints

from auctune.domain import InputError, parse_money
from auctune.service.accounts.registry import (
    NO_TERMS,
    Account,
    Budget,
    DefaultTerms,
    KeyRecord,
    Role,
)
from auctune.service.config.fields import Name
from auctune.service.erasure import StillOpenError, erase
from auctune.service.http.errors import ERRORS, ApiError, not_found
from auctune.service.http.requests import OperatorUser, ServiceDep
from auctune.service.http.schemas import Page
from auctune.service.http.serializers import JSON, page_view
from auctune.service.jobs.request import FORBID_EXTRA
from auctune.service.service import Service

router = APIRouter(prefix="/v1", tags=["people"], responses=ERRORS)


class BudgetBody(BaseModel):
    """Limit on payments within a rolling time window."""

    model_config = FORBID_EXTRA

    amount: Annotated[str, StringConstraints(max_length=32)]
    seconds: Annotated[float, Field(gt=0, le=1e9, strict=True)]


class TeamBody(BaseModel):
    """A team to add or change."""

    model_config = FORBID_EXTRA

    id: Name
    budget: BudgetBody | None = None
    default_terms: DefaultTerms | None = None


class UserBody(BaseModel):
    """A user to add or change."""

    model_config = FORBID_EXTRA

    id: Name
    team: Name | None = None
    budget: BudgetBody | None = None
    default_terms: DefaultTerms | None = None


class KeyBody(BaseModel):
    """A key to create."""

    model_config = FORBID_EXTRA

    user: Name
    role: Literal["user", "operator"] = "user"
    name: Annotated[str, StringConstraints(max_length=64)] = ""
    budget: BudgetBody | None = None
    default_terms: DefaultTerms | None = None


class KeyChangeBody(BaseModel):
    """Changes of a key."""

    model_config = FORBID_EXTRA

    budget: BudgetBody | None = None
    default_terms: DefaultTerms | None = None


class AccountResponse(BaseModel):
    """A user or a team, and what is spent and left of its own budget."""

    id: str
    object: str
    team: str | None
    default_terms: DefaultTerms
    budget: BudgetBody | None
    budget_spent: str | None
    budget_remaining: str | None


UnixSeconds = Annotated[int, BeforeValidator(int)]


class KeyResponse(BaseModel):
    """A key; `secret` is set in the response that creates it only.

    `budget` limits payments for jobs and answers that are requested with the key.
    """

    id: str
    object: str = "key"
    prefix: str
    user: str
    role: str
    name: str
    created_at: UnixSeconds
    revoked_at: UnixSeconds | None
    default_terms: DefaultTerms
    budget: BudgetBody | None
    budget_spent: str | None
    budget_remaining: str | None
    secret: str | None = None


class ErasureResponse(BaseModel):
    """Numbers of erased objects."""

    user: str
    object: str = "erased"
    keys: int
    webhooks: int
    jobs: int
    files: int


@router.post("/teams", response_model=AccountResponse)
async def put_team(service: ServiceDep, who: OperatorUser, body: TeamBody) -> JSON:
    """Add a team, or change its budget and default terms.

    Null removes a field, also one of the default terms; an omitted field keeps its value.
    """
    existing = service.accounts.team(body.id)
    budget, terms = _requested_budget(body, existing), _requested_terms(service, body, existing)
    return _account(service, await service.put_team(body.id, budget, terms))


@router.get("/teams", response_model=Page[AccountResponse])
async def list_teams(service: ServiceDep, who: OperatorUser) -> JSON:
    """List all teams."""
    return page_view([_account(service, team) for team in service.accounts.teams()])


@router.post("/users", response_model=AccountResponse)
async def put_user(service: ServiceDep, who: OperatorUser, body: UserBody) -> JSON:
    """Add a user, or change its team, budget and default terms.

    Null removes a field, also one of the default terms; an omitted field keeps its value.
    """
    existing = service.accounts.user(body.id)
    team = (
        existing.team if existing is not None and "team" not in body.model_fields_set else body.team
    )
    budget, terms = _requested_budget(body, existing), _requested_terms(service, body, existing)
    return _account(service, await service.put_user(body.id, team, budget, terms))


@router.get("/users", response_model=Page[AccountResponse])
async def list_users(service: ServiceDep, who: OperatorUser) -> JSON:
    """List all users."""
    return page_view([_account(service, user) for user in service.accounts.users()])


@router.delete("/users/{user_id}/data", response_model=ErasureResponse)
async def erase_user(service: ServiceDep, who: OperatorUser, user_id: str) -> JSON:
    """Erase a user's files, checkpoints, webhooks, metadata and keys; accounting data stay."""
    if service.accounts.user(user_id) is None:
        raise not_found("user", user_id)
    _ensure_operator_remains(service, lambda key: key.user == user_id)
    try:
        return {"user": user_id, "object": "erased", **await erase(service, user_id)}
    except StillOpenError as error:
        raise ApiError(400, str(error), "jobs_open", "user_id") from None


@router.post("/keys", response_model=KeyResponse)
async def add_key(service: ServiceDep, who: OperatorUser, body: KeyBody) -> JSON:
    """Create a key. Its secret is in this response only."""
    budget, terms = _requested_budget(body, None), _requested_terms(service, body, None)
    record, secret = await service.accounts.add_key(
        body.user, Role(body.role), body.name, budget, terms
    )
    return {**_key(service, record), "secret": secret}


@router.get("/keys", response_model=Page[KeyResponse])
async def list_keys(service: ServiceDep, who: OperatorUser) -> JSON:
    """List all keys."""
    return page_view([_key(service, record) for record in service.accounts.all_keys()])


@router.post("/keys/{key_id}", response_model=KeyResponse)
async def change_key(
    service: ServiceDep, who: OperatorUser, key_id: str, body: KeyChangeBody
) -> JSON:
    """Change a key's budget and default terms; null removes one, an omitted field stays."""
    existing = service.accounts.key(key_id)
    if existing is None:
        raise not_found("key", key_id)
    budget, terms = _requested_budget(body, existing), _requested_terms(service, body, existing)
    return _key(service, await service.change_key(existing, budget, terms))


@router.delete("/keys/{key_id}", response_model=KeyResponse)
async def revoke_key(service: ServiceDep, who: OperatorUser, key_id: str) -> JSON:
    """Revoke a key, with immediate effect."""
    _ensure_operator_remains(service, lambda key: key.id == key_id)
    record = await service.accounts.revoke_key(key_id)
    if record is None:
        raise not_found("key", key_id)
    return _key(service, record)


def _ensure_operator_remains(service: Service, ends: Callable[[KeyRecord], bool]) -> None:
    """Check that an operator's key remains: without one, no key could be created any more."""
    keys = service.accounts.all_keys()
    operators = [key for key in keys if key.role is Role.OPERATOR and key.revoked_at is None]
    if operators and all(map(ends, operators)):
        raise ApiError(
            400, "this is the last operator key; create another one first", "last_operator"
        )


def _requested_budget(
    body: TeamBody | UserBody | KeyBody | KeyChangeBody, existing: Account | KeyRecord | None
) -> Budget | None:
    if existing is not None and "budget" not in body.model_fields_set:
        return existing.budget
    if body.budget is None:
        return None
    return Budget(parse_money(body.budget.amount, "budget.amount"), body.budget.seconds)


def _requested_terms(
    service: Service,
    body: TeamBody | UserBody | KeyBody | KeyChangeBody,
    existing: Account | KeyRecord | None,
) -> DefaultTerms:
    before = NO_TERMS if existing is None else existing.default_terms
    if "default_terms" not in body.model_fields_set:
        return before
    if body.default_terms is None:
        return NO_TERMS
    given = body.default_terms
    changes = {name: getattr(given, name) for name in given.model_fields_set}
    if changes.get("zone") not in (None, *service.zones):
        expected = f"one of {', '.join(service.zones)}"
        raise InputError("default_terms.zone", f"{changes['zone']!r} is unknown", expected)
    return before.model_copy(update=changes)


def _account(service: Service, account: Account) -> JSON:
    return {
        "id": account.id,
        "object": account.kind,
        "team": account.team,
        "default_terms": account.default_terms,
        **_budget(service, account),
    }


def _key(service: Service, record: KeyRecord) -> JSON:
    return {**asdict(record), **_budget(service, record.account)}


def _budget(service: Service, account: Account) -> JSON:
    budget = account.budget
    shown = None if budget is None else {"amount": str(budget.amount), "seconds": budget.seconds}
    spent, remaining = service.spending.of(account) or (None, None)
    return {
        "budget": shown,
        "budget_spent": None if spent is None else str(spent),
        "budget_remaining": None if remaining is None else str(remaining),
    }
