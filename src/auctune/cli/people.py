"""`auctune users`, `teams` and `keys`: who may use a service; for operators."""

import re
import sys
from typing import Annotated, Any

import typer

from auctune.cli.service_options import DATA, ApiKey, AsJson, Data, Finder, Url, print_json
from auctune.domain.errors import InputError

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_NONE = "none"
_BUDGET = re.compile(r"([\d.]+)/(\d+)([smhd])")

Name = Annotated[str, typer.Argument(help="Its name.", show_default=False)]
Budget = Annotated[
    str | None,
    typer.Option(
        help="What may be paid in a span: 100.00/30d; 'none': any amount. Left out, it stays."
    ),
]

users = typer.Typer(help="Users: list, add, erase; for operators.", rich_markup_mode=None)
teams = typer.Typer(help="Teams: list, add; for operators.", rich_markup_mode=None)
keys = typer.Typer(help="API keys: list, add, revoke; for operators.", rich_markup_mode=None)


@users.command("list")
def list_users(
    as_json: AsJson = False, url: Url = None, api_key: ApiKey = None, data: Data = DATA
) -> None:
    """List users, their teams, and what is left of budgets."""
    _list("users", Finder(url, api_key, data), as_json=as_json)


@users.command("add")
def add_user(
    name: Name,
    team: Annotated[
        str | None, typer.Option(help="Its team; 'none': no team. Left out, it stays.")
    ] = None,
    budget: Budget = None,
    as_json: AsJson = False,
    url: Url = None,
    api_key: ApiKey = None,
    data: Data = DATA,
) -> None:
    """Add a user, or change its team and budget."""
    teams = {} if team is None else {"team": None if team == _NONE else team}
    body = {"id": name, **teams, **_budget(budget)}
    _add("users", body, Finder(url, api_key, data), as_json=as_json)


@users.command("erase")
def erase_user(
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask whether it is meant.")] = False,
    as_json: AsJson = False,
    url: Url = None,
    api_key: ApiKey = None,
    data: Data = DATA,
) -> None:
    """Erase a user's data, for good.

    That is files, checkpoints, webhooks, keys, and names and metadata of jobs. Decisions and
    payments stay in the books. A user with open jobs is refused.
    """
    if not yes:
        if not sys.stdin.isatty():
            raise InputError("--yes", "is missing, and nobody can be asked", "--yes, if it is so")
        typer.confirm(f"erase all data of {name}, for good?", abort=True, err=True)
    with Finder(url, api_key, data)() as client:
        erased = client.erase(name)
    if as_json:
        print_json(erased)
        return
    counts = ", ".join(f"{erased[kind]} {kind}" for kind in ("files", "jobs", "webhooks", "keys"))
    typer.echo(f"{name}: erased {counts}")


@teams.command("list")
def list_teams(
    as_json: AsJson = False, url: Url = None, api_key: ApiKey = None, data: Data = DATA
) -> None:
    """List teams, and what is left of their budgets."""
    _list("teams", Finder(url, api_key, data), as_json=as_json)


@teams.command("add")
def add_team(
    name: Name,
    budget: Budget = None,
    as_json: AsJson = False,
    url: Url = None,
    api_key: ApiKey = None,
    data: Data = DATA,
) -> None:
    """Add a team, or change its budget."""
    body = {"id": name, **_budget(budget)}
    _add("teams", body, Finder(url, api_key, data), as_json=as_json)


@keys.command("list")
def list_keys(
    as_json: AsJson = False, url: Url = None, api_key: ApiKey = None, data: Data = DATA
) -> None:
    """List keys; of each only its beginning is known."""
    _list("keys", Finder(url, api_key, data), as_json=as_json)


@keys.command("add")
def add_key(
    user: Annotated[str, typer.Argument(help="Whose it is.", show_default=False)],
    role: Annotated[str, typer.Option(help="user, operator or vendor.")] = "user",
    name: Annotated[str | None, typer.Option(help="What it is called.")] = None,
    as_json: AsJson = False,
    url: Url = None,
    api_key: ApiKey = None,
    data: Data = DATA,
) -> None:
    """Make a key; it is shown now, and never again."""
    body = {"user": user, "role": role, **({} if name is None else {"name": name})}
    with Finder(url, api_key, data)() as client:
        made = client.add("keys", body)
    if as_json:
        print_json(made)
    else:
        typer.echo(made["secret"])


@keys.command("revoke")
def revoke_key(
    key: Annotated[str, typer.Argument(help="Its id, key-...", show_default=False)],
    as_json: AsJson = False,
    url: Url = None,
    api_key: ApiKey = None,
    data: Data = DATA,
) -> None:
    """End a key, at once."""
    with Finder(url, api_key, data)() as client:
        ended = client.revoke(key)
    if as_json:
        print_json(ended)
    else:
        typer.echo(f"{ended['id']} of {ended['user']} is no key any more")


def _add(kind: str, body: dict[str, Any], connect: Finder, *, as_json: bool) -> None:
    with connect() as client:
        added = client.add(kind, body)
    if as_json:
        print_json(added)
    else:
        _show(kind, [added])


def _list(kind: str, connect: Finder, *, as_json: bool) -> None:
    with connect() as client:
        found = client.people(kind)
    if as_json:
        print_json(found)
    else:
        _show(kind, found)


def _show(kind: str, found: list[dict[str, Any]]) -> None:
    from auctune.cli.job_lines import clock, span
    from auctune.cli.wide import show, table_of

    if kind == "keys":
        table = table_of("key", "begins with", "user", "role", "name", "made", "revoked")
        for key in found:
            times = clock(key["created_at"]), clock(key["revoked_at"])
            table.add_row(
                key["id"], key["prefix"], key["user"], key["role"], key["name"] or "-", *times
            )
        show(table, spare=("begins with", "made"))
        return
    # A team is in no team.
    teams = ("team",) if kind == "users" else ()
    table = table_of(
        kind.removesuffix("s"), *teams, "budget", "spent", "left", right=("spent", "left")
    )
    for account in found:
        budget = account["budget"]
        words = f"{budget['amount']} in {span(budget['seconds'])}" if budget else "-"
        sums = account["budget_spent"] or "-", account["budget_left"] or "-"
        table.add_row(account["id"], *(account[head] or "-" for head in teams), words, *sums)
    show(table)


def _budget(text: str | None) -> dict[str, Any]:
    """The field of a request; none where nothing was said."""
    if text is None:
        return {}
    if text == _NONE:
        return {"budget": None}
    found = _BUDGET.fullmatch(text)
    if found is None:
        raise InputError("--budget", repr(text), "an amount and a span, such as 100.00/30d")
    return {"budget": {"amount": found[1], "seconds": int(found[2]) * _SECONDS[found[3]]}}
