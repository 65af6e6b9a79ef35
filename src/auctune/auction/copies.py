"""A mechanism as it will be, for questions that must change nothing."""

import copy
from typing import Any, Protocol, TypeVar

from auctune.auction.book import Book


class HasBook(Protocol):
    """What it must have."""

    book: Book


M = TypeVar("M", bound=HasBook)


def copy_of(mechanism: M) -> M:
    """A mechanism that goes on by itself; only what never changes is shared."""
    shared: tuple[Any, ...] = (mechanism.book.cluster, mechanism.book.energy)
    return copy.deepcopy(mechanism, {id(part): part for part in shared})
