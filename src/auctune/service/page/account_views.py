"""Page of users, teams and keys for operators: budgets, alerts and default terms."""

import re
from collections.abc import Mapping
from typing import Any

import orjson
from starlette.responses import RedirectResponse, Response

from auctune.domain import InputError
from auctune.service.accounts.registry import DefaultTerms
from auctune.service.http.errors import ApiError
from auctune.service.http.requests import read_body
from auctune.service.http.routes import accounts
from auctune.service.http.serializers import JSON
from auctune.service.page.auth import PageRequest, form_values
from auctune.service.page.templates import ROOT

_DAY_SECONDS = 86_400.0
_NONE = "none"
_TERMS = tuple(DefaultTerms.model_fields)
_NUMBER = re.compile(r"[0-9]{1,9}(\.[0-9]{1,6})?")


async def accounts_page(visit: PageRequest) -> Response:
    """Show all accounts, and the form that changes one."""
    return await _page(visit, {})


async def change_account(visit: PageRequest) -> Response:
    """Change the budget and default terms of a user, a team or a key."""
    values = await form_values(visit)
    try:
        await _change(visit, values)
    except InputError as error:
        return await _page(visit, values, str(error), 400)
    except ApiError as error:
        return await _page(visit, values, error.detail, error.status_code)
    return RedirectResponse(f"{ROOT}/accounts", 303)


async def _change(visit: PageRequest, values: Mapping[str, str]) -> None:
    service, who = visit.service, visit.who
    kind, _, name = values.get("account", "").partition(" ")
    changes = account_changes(values)
    named = orjson.dumps({**changes, "id": name})
    match kind:
        case "key":
            body = read_body(orjson.dumps(changes), accounts.KeyChangeBody)
            await accounts.change_key(service, who, name, body)
        case "user" if service.accounts.user(name) is not None:
            await accounts.put_user(service, who, read_body(named, accounts.UserBody))
        case "team" if service.accounts.team(name) is not None:
            await accounts.put_team(service, who, read_body(named, accounts.TeamBody))
        case "user" | "team":
            raise InputError("account", f"{kind} {name} is unknown", "one of the list")
        case _:
            raise InputError("account", "is missing", "one of the list")


def account_changes(values: Mapping[str, str]) -> JSON:
    """Return the changes of a filled-in form; empty fields change nothing, `none` removes."""
    changes: JSON = {}
    amount, days = values.get("budget"), values.get("budget_days", "30")
    if amount is not None:
        if not _NUMBER.fullmatch(days):
            raise InputError("budget_days", repr(days), "a number of days")
        budget = {"amount": amount, "seconds": float(days) * _DAY_SECONDS}
        changes["budget"] = None if amount == _NONE else budget
    terms = {
        name: None if values[name] == _NONE else values[name] for name in _TERMS if name in values
    }
    return {**changes, "default_terms": terms} if terms else changes


async def _page(
    visit: PageRequest, values: Mapping[str, str], wrong: str | None = None, status: int = 200
) -> Response:
    service, who = visit.service, visit.who
    users = (await accounts.list_users(service, who))["data"]
    teams = (await accounts.list_teams(service, who))["data"]
    keys = [
        {**key, "object": "key"}
        for key in (await accounts.list_keys(service, who))["data"]
        if key["revoked_at"] is None
    ]
    everybody: list[dict[str, Any]] = [*teams, *users, *keys]
    alerts = service.spending.alerts.of(
        (*service.accounts.teams(), *service.accounts.users(), *_key_accounts(visit)),
        service.now(),
    )
    reached: dict[str, int] = {}
    for alert in alerts:
        reached[alert.owner] = max(alert.percent, reached.get(alert.owner, 0))
    return visit.render(
        "accounts.html",
        status,
        accounts=everybody,
        reached=reached,
        zones=list(service.zones),
        values=values,
        wrong=wrong,
    )


def _key_accounts(visit: PageRequest) -> list[Any]:
    return [key.account for key in visit.service.accounts.all_keys()]
