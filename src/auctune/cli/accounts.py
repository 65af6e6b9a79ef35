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

Name = Annotated[str, typer.Argument(help="Its name.", show_default=False)]
Budget = Annotated[
    str | None,
    typer.Option(
        help="Spending limit per period, such as 100.00/30d; 'none': no limit. Default: unchanged."
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
        str | None, typer.Option(help="Its team; 'none': no team. Default: unchanged.")
    ] = None,
    budget: Budget = None,
    service: ServiceJsonOptions,
) -> None:
    """Add a user, or change its team and budget."""
    fields = {} if team is None else {"team": None if team == _NONE else team}
    _put("users", {"id": name, **fields, **_budget_field(budget)}, service)


@users.command("erase")
@option_groups
def erase_user(
    name: Name,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    service: ServiceJsonOptions,
) -> None:
    """Erase a user's data permanently.

    Erases files, checkpoints, webhooks, keys, and names and metadata of jobs. Decisions and
    payments stay on record. Refused while the user has open jobs.
    """
    if not yes:
        if not sys.stdin.isatty():
            raise InputError("--yes", "is missing, and there is no terminal to ask on", "--yes")
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
    """Add a team, or change its budget."""
    _put("teams", {"id": name, **_budget_field(budget)}, service)


@keys.command("list")
@option_groups
def list_keys(service: ServiceJsonOptions) -> None:
    """List keys; only the prefix of each is stored."""
    _list("keys", service)


@keys.command("add")
@option_groups
def add_key(
    user: Annotated[str, typer.Argument(help="The user it is for.", show_default=False)],
    *,
    role: Annotated[str, typer.Option(help="user, operator or vendor.")] = "user",
    name: Annotated[str | None, typer.Option(help="A name for the key.")] = None,
    service: ServiceJsonOptions,
) -> None:
    """Make a key and show it, once."""
    body = {"user": user, "role": role, **({} if name is None else {"name": name})}
    with service.connect() as client:
        added = client.put_account("keys", body)
    service.output(added, lambda key: typer.echo(key["secret"]))


@keys.command("revoke")
@option_groups
def revoke_key(
    key: Annotated[str, typer.Argument(help="Its id, key-...", show_default=False)],
    service: ServiceJsonOptions,
) -> None:
    """Revoke a key immediately."""
    with service.connect() as client:
        revoked = client.revoke_key(key)
    message = f"{revoked['id']} of {revoked['user']} has been revoked"
    service.output(revoked, lambda _: typer.echo(message))


def _list(kind: str, service: ServiceJsonOptions) -> None:
    with service.connect() as client:
        found = client.list_accounts(kind)
    service.output(found, lambda records: _print_accounts(kind, records))


def _put(kind: str, body: dict[str, Any], service: ServiceJsonOptions) -> None:
    with service.connect() as client:
        record = client.put_account(kind, body)
    service.output(record, lambda one: _print_accounts(kind, [one]))


def _print_accounts(kind: str, found: list[dict[str, Any]]) -> None:
    if kind == "keys":
        _print_keys(found)
        return
    # A team belongs to no team.
    team = ("team",) if kind == "users" else ()
    table = make_table(
        kind.removesuffix("s"), *team, "budget", "spent", "left", right=("spent", "left")
    )
    for account in found:
        budget = account["budget"]
        text = f"{budget['amount']} in {format_duration(budget['seconds'])}" if budget else "-"
        sums = account["budget_spent"] or "-", account["budget_left"] or "-"
        table.add_row(account["id"], *(account[name] or "-" for name in team), text, *sums)
    print_table(table)


def _print_keys(found: list[dict[str, Any]]) -> None:
    table = make_table("key", "begins with", "user", "role", "name", "made", "revoked")
    for key in found:
        times = format_time(key["created_at"]), format_time(key["revoked_at"])
        owner = key["user"], key["role"], key["name"] or "-"
        table.add_row(key["id"], key["prefix"], *owner, *times)
    print_table(table, optional=("begins with", "made"))


def _budget_field(text: str | None) -> dict[str, Any]:
    """Return the request's field for `--budget`; empty if the option is not given."""
    if text is None:
        return {}
    if text == _NONE:
        return {"budget": None}
    found = _BUDGET.fullmatch(text)
    if found is None:
        raise InputError("--budget", repr(text), "an amount and a period, such as 100.00/30d")
    return {"budget": {"amount": found[1], "seconds": int(found[2]) * _SECONDS[found[3]]}}
