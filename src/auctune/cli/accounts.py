"""`auctune users`, `teams` and `keys`: the accounts of a service; for operators."""

import re
import sys
from dataclasses import dataclass, fields
from typing import Annotated, Any

import typer

from auctune.cli._support.job_text import format_duration, format_time
from auctune.cli._support.options import option_groups
from auctune.cli._support.service import ServiceJsonOptions
from auctune.cli._support.tables import make_table, print_table
from auctune.domain.errors import InputError

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_NONE = "none"
# Columns of accounts.
_BUDGET_COLUMNS = "budget", "spent", "remaining", "default terms"
_BUDGET = re.compile(r"([\d.]+)/(\d+)([smhd])")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name.", show_default=False)]
KeyId = Annotated[
    str, typer.Argument(metavar="KEY", help="Id of the key, key-...", show_default=False)
]
Budget = Annotated[
    str | None,
    typer.Option(
        metavar="AMOUNT/PERIOD",
        help="Spending limit, such as 100.00/30d; 'none': no limit. Default: unchanged.",
    ),
]


@dataclass
class DefaultTermOptions:
    """Options of default terms; None leaves one unchanged, and `none` removes it."""

    default_bid: Annotated[
        str | None,
        typer.Option(
            metavar="AMOUNT",
            help="Bid of requests that state no bid, value or cap; 'none': no default.",
        ),
    ] = None
    default_max_cost: Annotated[
        str | None,
        typer.Option(
            metavar="AMOUNT", help="Cap on the cost of such requests; 'none': no default."
        ),
    ] = None
    default_deadline: Annotated[
        str | None,
        typer.Option(
            metavar="SPAN",
            help="Deadline of requests without one, such as +2h; 'none': no default.",
        ),
    ] = None
    default_zone: Annotated[
        str | None,
        typer.Option(metavar="ZONE", help="Zone of requests that name none; 'none': no default."),
    ] = None

    def body(self) -> dict[str, Any]:
        """Return the request's `default_terms`, or no field without an option."""
        terms = {
            one.name.removeprefix("default_"): None if value == _NONE else value
            for one in fields(self)
            if (value := getattr(self, one.name)) is not None
        }
        return {"default_terms": terms} if terms else {}


users = typer.Typer(help="Users: list, add, erase; for operators.", rich_markup_mode=None)
teams = typer.Typer(help="Teams: list, add; for operators.", rich_markup_mode=None)
keys = typer.Typer(
    help="API keys: list, add, change, revoke; for operators.", rich_markup_mode=None
)


@users.command("list")
@option_groups
def list_users(service: ServiceJsonOptions) -> None:
    """List users, their teams and remaining budgets."""
    _list("users", service)


@users.command("add")
@option_groups
def add_user(
    name: Name,
    *,
    team: Annotated[
        str | None,
        typer.Option(metavar="TEAM", help="The user's team; 'none': no team. Default: unchanged."),
    ] = None,
    budget: Budget = None,
    terms: DefaultTermOptions,
    service: ServiceJsonOptions,
) -> None:
    """Add a user, or change a user's team, budget and default terms."""
    changes = {} if team is None else {"team": None if team == _NONE else team}
    _put("users", {"id": name, **changes, **_budget_field(budget), **terms.body()}, service)


@users.command("erase")
@option_groups
def erase_user(
    name: Name,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Skip the confirmation.")] = False,
    service: ServiceJsonOptions,
) -> None:
    """Erase a user's data permanently.

    Erases files, checkpoints, webhooks, keys, and all texts of jobs. Decisions and
    payments remain. Refused while the user has unfinished jobs.
    """
    if not yes:
        if not sys.stdin.isatty():
            raise InputError("--yes", "is missing, and there is no terminal to confirm on", "--yes")
        typer.confirm(f"erase all data of {name} permanently?", abort=True, err=True)
    with service.connect() as client:
        erased = client.erase(name)
    kinds = ("files", "jobs", "webhooks", "keys")
    counts = ", ".join(f"{erased[kind]} {kind}" for kind in kinds)
    service.output(erased, lambda _: typer.echo(f"{name}: erased {counts}"))


@teams.command("list")
@option_groups
def list_teams(service: ServiceJsonOptions) -> None:
    """List teams and their remaining budgets."""
    _list("teams", service)


@teams.command("add")
@option_groups
def add_team(
    name: Name, *, budget: Budget = None, terms: DefaultTermOptions, service: ServiceJsonOptions
) -> None:
    """Add a team, or change a team's budget and default terms."""
    _put("teams", {"id": name, **_budget_field(budget), **terms.body()}, service)


@keys.command("list")
@option_groups
def list_keys(service: ServiceJsonOptions) -> None:
    """List API keys by prefix; the keys themselves are not stored."""
    _list("keys", service)


@keys.command("add")
@option_groups
def add_key(
    user: Annotated[
        str, typer.Argument(metavar="USER", help="Owner of the key.", show_default=False)
    ],
    *,
    role: Annotated[str, typer.Option(metavar="ROLE", help="Role: user or operator.")] = "user",
    name: Annotated[str | None, typer.Option(metavar="NAME", help="Name of the key.")] = None,
    budget: Budget = None,
    terms: DefaultTermOptions,
    service: ServiceJsonOptions,
) -> None:
    """Create an API key and show it once."""
    names = {} if name is None else {"name": name}
    body = {"user": user, "role": role, **names, **_budget_field(budget), **terms.body()}
    with service.connect() as client:
        added = client.put_account("keys", body)
    service.output(added, lambda key: typer.echo(key["secret"]))


@keys.command("change")
@option_groups
def change_key(
    key: KeyId, *, budget: Budget = None, terms: DefaultTermOptions, service: ServiceJsonOptions
) -> None:
    """Change an API key's budget and default terms."""
    with service.connect() as client:
        changed = client.change_key(key, {**_budget_field(budget), **terms.body()})
    service.output(changed, lambda one: _print_keys([one]))


@keys.command("revoke")
@option_groups
def revoke_key(key: KeyId, service: ServiceJsonOptions) -> None:
    """Revoke an API key immediately."""
    with service.connect() as client:
        revoked = client.revoke_key(key)
    message = f"{revoked['id']} of {revoked['user']} has been revoked"
    service.output(revoked, lambda _: typer.echo(message))


def _list(kind: str, service: ServiceJsonOptions) -> None:
    with service.connect() as client:
        accounts = client.list_accounts(kind)
    service.output(accounts, lambda records: _print_accounts(kind, records))


def _put(kind: str, body: dict[str, Any], service: ServiceJsonOptions) -> None:
    with service.connect() as client:
        record = client.put_account(kind, body)
    service.output(record, lambda one: _print_accounts(kind, [one]))


def _print_accounts(kind: str, accounts: list[dict[str, Any]]) -> None:
    if kind == "keys":
        _print_keys(accounts)
        return
    team = ("team",) if kind == "users" else ()
    table = make_table(
        kind.removesuffix("s"),
        *team,
        *_BUDGET_COLUMNS,
        right=_BUDGET_COLUMNS[1:3],
    )
    for account in accounts:
        teams_ = (account[name] or "-" for name in team)
        table.add_row(account["id"], *teams_, *_budget_texts(account), _terms_text(account))
    print_table(table, optional=("default terms",))


def _print_keys(keys: list[dict[str, Any]]) -> None:
    columns = "key", "prefix", "user", "role", "name", "created", "revoked", *_BUDGET_COLUMNS
    table = make_table(*columns, right=_BUDGET_COLUMNS[1:3])
    for key in keys:
        times = format_time(key["created_at"]), format_time(key["revoked_at"])
        owner = key["user"], key["role"], key["name"] or "-"
        table.add_row(
            key["id"], key["prefix"], *owner, *times, *_budget_texts(key), _terms_text(key)
        )
    print_table(table, optional=("prefix", "created", "default terms", "spent"))


def _budget_texts(account: dict[str, Any]) -> tuple[str, str, str]:
    """Return the cells budget, spent and remaining."""
    budget = account["budget"]
    text = f"{budget['amount']} in {format_duration(budget['seconds'])}" if budget else "-"
    return text, account["budget_spent"] or "-", account["budget_remaining"] or "-"


def _terms_text(account: dict[str, Any]) -> str:
    terms = account["default_terms"].items()
    return ", ".join(f"{name} {value}" for name, value in terms if value is not None) or "-"


def _budget_field(text: str | None) -> dict[str, Any]:
    """Return the request's `budget` field, or no field without `--budget`."""
    if text is None:
        return {}
    if text == _NONE:
        return {"budget": None}
    match = _BUDGET.fullmatch(text)
    if match is None:
        raise InputError("--budget", repr(text), "an amount and a period, such as 100.00/30d")
    return {"budget": {"amount": match[1], "seconds": int(match[2]) * _SECONDS[match[3]]}}
