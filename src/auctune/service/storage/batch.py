"""Write batches: rows that are written together or not at all, as few SQL statements."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import cache
from itertools import chain
from typing import Any, Self

from sqlalchemy import Connection, Dialect, Table, bindparam, delete

from auctune.service.storage.tables import metadata

Row = Mapping[str, Any]
OnDone = Callable[[Exception | None], None]


class Change(Enum):
    """What a unit does to a table; within a unit in this order."""

    INSERT = "insert"
    UPSERT = "upsert"
    REMOVE = "remove"


def noop(_: Exception | None) -> None:
    """For a unit whose fate nobody waits for."""


class WriteBatch:
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
        self, done: OnDone = noop, *, is_vital: bool = False, then: Callable[[], None] | None = None
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


# SQL statements of batches: few statements with the effect of writing batch after batch.
#
# Rows of one kind of change to one table are written together, for all units at once. That changes
# the order among units, which shows only where a table is changed in more than one way; there a new
# stretch begins. A transaction is one stretch or more.
#
# A statement takes many rows. Each one that runs lets go of Python's global lock and must get it
# back, which takes milliseconds where another thread computes; so their number counts.

_Rows = list[dict[str, Any]]
_Changes = dict[tuple[Table, Change], _Rows]

_TABLES = metadata.sorted_tables
# What refers to a row is made after it and removed before it.
_ORDER = [(table, change) for table in _TABLES for change in (Change.INSERT, Change.UPSERT)] + [
    (table, Change.REMOVE) for table in reversed(_TABLES)
]
# A statement for each number of rows up to this one, which the driver keeps ready; so many rows
# stay far below its most values.
_MOST_ROWS = 64


def write(connection: Connection, units: Sequence[WriteBatch]) -> None:
    """Write units; the caller has begun a transaction and ends it."""
    for changes in _batches(units):
        for table, change in _ORDER:
            rows = changes.get((table, change))
            if not rows:
                continue
            if change is Change.REMOVE:
                _remove(connection, table, rows)
            else:
                _write_rows(connection, table, change, rows)


def _batches(units: Iterable[WriteBatch]) -> Iterator[_Changes]:
    """Changes of successive units, joined as far as their order does not matter."""
    joined: _Changes = {}
    for unit in units:
        if joined and not _may_join(joined, unit.changes):
            yield joined
            joined = {}
        for place, rows in unit.changes.items():
            joined.setdefault(place, []).extend(rows)
    yield joined


def _may_join(joined: _Changes, added: _Changes) -> bool:
    both = {*joined, *added}
    return len({table for table, _ in both}) == len(both) and all(
        change is not Change.REMOVE for _, change in both
    )


def _remove(connection: Connection, table: Table, keys: _Rows) -> None:
    columns = table.primary_key.columns
    chosen = (column == bindparam(column.name) for column in columns)
    connection.execute(delete(table).where(*chosen), keys)


def _write_rows(connection: Connection, table: Table, change: Change, rows: _Rows) -> None:
    for part in _split_duplicates(table, rows) if change is Change.UPSERT else (rows,):
        for begin in range(0, len(part), _MOST_ROWS):
            some = part[begin : begin + _MOST_ROWS]
            statement = _statement(table, change, len(some), connection.dialect)
            values = tuple(chain.from_iterable(row.values() for row in some))
            connection.exec_driver_sql(statement, values)


def _split_duplicates(table: Table, rows: _Rows) -> Iterator[_Rows]:
    """Rows in parts, as one statement may not put a row twice."""
    names = [column.name for column in table.primary_key]
    part: _Rows = []
    keys: set[tuple[Any, ...]] = set()
    for row in rows:
        key = tuple(row[name] for name in names)
        if key in keys:
            yield part
            part, keys = [], set()
        part.append(row)
        keys.add(key)
    yield part


@cache
def _statement(table: Table, change: Change, num_rows: int, dialect: Dialect) -> str:
    """What puts so many rows, their values in the order of the table's columns."""
    quote = dialect.identifier_preparer.quote
    columns = [quote(column.name) for column in table.columns]
    keys = [quote(column.name) for column in table.primary_key]
    place = "?" if dialect.name == "sqlite" else "%s"
    row = f"({', '.join([place] * len(columns))})"
    insert = (
        f"INSERT INTO {quote(table.name)} ({', '.join(columns)}) "
        f"VALUES {', '.join([row] * num_rows)}"
    )
    if change is Change.INSERT:
        return insert
    replaced = ", ".join(f"{name} = excluded.{name}" for name in columns if name not in keys)
    return f"{insert} ON CONFLICT ({', '.join(keys)}) DO UPDATE SET {replaced}"
