"""What is written together or not at all."""

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import cache
from typing import Any, Self

from sqlalchemy import Table

Row = Mapping[str, Any]
Done = Callable[[Exception | None], None]


class Change(Enum):
    """What a unit does to a table; within a unit in this order."""

    INSERT = "insert"
    UPSERT = "upsert"
    REMOVE = "remove"


def ignore(_: Exception | None) -> None:
    """For a unit whose fate nobody waits for."""


class Unit:
    """Rows to be written in one transaction.

    Tables are written in the order of their references, whatever the order of calls. Once
    submitted, a unit is no longer changed.

    Args:
        done: called with None once the unit is on disk, else with the error that kept it from
            being written; on the committer's thread, so it must be quick and must not raise.
        is_vital: whether later units build on it: if it cannot be written, none of them is.
        then: called on the committer's thread once the unit is written, before `done`; what it
            raises is told to `done`.

    Attributes:
        changes: full rows by table and change; of a removal the primary keys.
    """

    __slots__ = ("changes", "done", "is_vital", "then")

    def __init__(
        self, done: Done = ignore, *, is_vital: bool = False, then: Callable[[], None] | None = None
    ) -> None:
        self.then = then
        self.done = done
        self.is_vital = is_vital
        self.changes: dict[tuple[Table, Change], list[dict[str, Any]]] = {}

    def insert(self, table: Table, *rows: Row) -> Self:
        """Rows that must not be there yet. Columns that may be empty may be left out.

        Raises:
            ValueError: if a column is missing, of another type, or not one of the table's.
        """
        return self._append(table, Change.INSERT, (_full(table, row) for row in rows))

    def upsert(self, table: Table, *rows: Row) -> Self:
        """Rows that take the place of those with the same primary key; otherwise as `insert`."""
        return self._append(table, Change.UPSERT, (_full(table, row) for row in rows))

    def remove(self, table: Table, *keys: Row) -> Self:
        """Rows that go, by their primary key; one that is not there is no error.

        Raises:
            ValueError: if a key is not the primary key's columns.
        """
        names = {column.name for column in table.primary_key}
        for key in keys:
            if key.keys() != names:
                raise ValueError(f"{table.name}: key {sorted(key)}; expected {sorted(names)}")
        return self._append(table, Change.REMOVE, (dict(key) for key in keys))

    def _append(self, table: Table, change: Change, rows: Iterable[dict[str, Any]]) -> Self:
        added = list(rows)
        if added:
            self.changes.setdefault((table, change), []).extend(added)
        return self


def _full(table: Table, row: Row) -> dict[str, Any]:
    """All columns in the table's order, checked; both databases would take some wrong types."""
    full = {}
    for name, types, expected in _columns(table):
        value = full[name] = row.get(name)
        if not isinstance(value, types):
            found = "missing" if value is None else f"a {type(value).__name__}"
            raise ValueError(f"{table.name}: {name} is {found}; expected {expected}")
    if not row.keys() <= full.keys():
        raise ValueError(f"{table.name}: unknown columns {sorted(row.keys() - full.keys())}")
    return full


@cache
def _columns(table: Table) -> list[tuple[str, tuple[type, ...], str]]:
    """Names of columns, what their values may be, and the same in words."""
    found = []
    for column in table.columns:
        kind = column.type.python_type
        types = (float, int) if kind is float else (kind,)
        empty = (type(None),) if column.nullable else ()
        found.append((column.name, types + empty, kind.__name__))
    return found
