"""`auctune users`, `teams` and `keys`: the accounts of a service; for operators."""

import re
import sys
from typing import Annotated, Any

import typer

from auctune.cli._support.job_text import format_duration, format_time
from auctune.cli._support.options import option_groups
from auctune.cli._support.service import ServiceJsonOptions
from auctune.cli._support.tables import make_table, print_table
from auctune.domain.errors import InputError

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_NONE = "none"
_BUDGET = re.compile(r"([\d.]+)/(\d+)([smhd])")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name.", show_default=False)]
Budget = Annotated[
    str | None,
    typer.Option(
        metavar="AMOUNT/PERIOD",
        help="Spending limit, such as 100.00/30d; 'none': no limit. Default: unchanged.",
    ),
]

users = typer.Typer(help="Users: list, add, erase; for operators.", rich_markup_mode=None)
teams = typer.Typer(help="Teams: list, add; for operators.", rich_markup_mode=None)
keys = typer.Typer(help="API keys: list, add, revoke; for operators.", rich_markup_mode=None)


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
    service: ServiceJsonOptions,
) -> None:
    """Add a user, or change a user's team and budget."""
    fields = {} if team is None else {"team": None if team == _NONE else team}
    _put("users", {"id": name, **fields, **_budget_field(budget)}, service)


@users.command("erase")
@option_groups
def erase_user(
    name: Name,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Skip the confirmation.")] = False,
    service: ServiceJsonOptions,
) -> None:
    """Erase a user's data permanently.

    Erases files, checkpoints, webhooks, keys, and names and metadata of jobs. Decisions and
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
def add_team(name: Name, *, budget: Budget = None, service: ServiceJsonOptions) -> None:
    """Add a team, or change a team's budget."""
    _put("teams", {"id": name, **_budget_field(budget)}, service)


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
    role: Annotated[
        str, typer.Option(metavar="ROLE", help="Role: user, operator or vendor.")
    ] = "user",
    name: Annotated[str | None, typer.Option(metavar="NAME", help="Name of the key.")] = None,
    service: ServiceJsonOptions,
) -> None:
    """Create an API key and show it once."""
    body = {"user": user, "role": role, **({} if name is None else {"name": name})}
    with service.connect() as client:
        added = client.put_account("keys", body)
    service.output(added, lambda key: typer.echo(key["secret"]))


@keys.command("revoke")
@option_groups
def revoke_key(
    key: Annotated[
        str, typer.Argument(metavar="KEY", help="Id of the key, key-...", show_default=False)
    ],
    service: ServiceJsonOptions,
) -> None:
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
        kind.removesuffix("s"), *team, "budget", "spent", "remaining", right=("spent", "remaining")
    )
    for account in accounts:
        budget = account["budget"]
        text = f"{budget['amount']} in {format_duration(budget['seconds'])}" if budget else "-"
        sums = account["budget_spent"] or "-", account["budget_remaining"] or "-"
        table.add_row(account["id"], *(account[name] or "-" for name in team), text, *sums)
    print_table(table)


def _print_keys(keys: list[dict[str, Any]]) -> None:
    table = make_table("key", "prefix", "user", "role", "name", "created", "revoked")
    for key in keys:
        times = format_time(key["created_at"]), format_time(key["revoked_at"])
        owner = key["user"], key["role"], key["name"] or "-"
        table.add_row(key["id"], key["prefix"], *owner, *times)
    print_table(table, optional=("prefix", "created"))


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
