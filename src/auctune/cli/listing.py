"""How much of a long list a command shows, newest first, and that there is more."""

import itertools
from collections.abc import Iterable
from typing import Annotated, TypeVar

import typer

T = TypeVar("T")

Limit = Annotated[int, typer.Option(min=1, help="So many at most, the newest.")]
All = Annotated[bool, typer.Option("--all", help="All of them, in place of --limit.")]


def newest(items: Iterable[T], limit: int, *, everything: bool) -> list[T]:
    """The newest of a list; on standard error that there are more, if there are.

    Args:
        items: newest first; read no further than is needed.
        limit: so many at most.
        everything: whether all are wanted in place of that.
    """
    if everything:
        return list(items)
    found = list(itertools.islice(items, limit + 1))
    if len(found) > limit:
        typer.echo(f"the newest {limit}, and there are more: --all, or a higher --limit", err=True)
    return found[:limit]
