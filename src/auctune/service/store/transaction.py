"""Units as statements: many units, few statements, as if they had been written one by one.

Rows of one kind of change to one table are written together, for all units at once. That changes
the order among units, which shows only where a table is changed in more than one way; there a new
stretch begins. A transaction is one stretch or more.

A statement takes many rows. Each one that runs lets go of Python's global lock and must get it
back, which takes milliseconds where another thread computes; so their number counts.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import chain
from typing import Any

from sqlalchemy import Connection, Dialect, Table, bindparam, delete

from auctune.service.store.tables import metadata
from auctune.service.store.unit import Change, Unit

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


def write(connection: Connection, units: Sequence[Unit]) -> None:
    """Write units; the caller has begun a transaction and ends it."""
    for changes in _stretches(units):
        for table, change in _ORDER:
            rows = changes.get((table, change))
            if not rows:
                continue
            if change is Change.REMOVE:
                _remove(connection, table, rows)
            else:
                _put(connection, table, change, rows)


def _stretches(units: Iterable[Unit]) -> Iterator[_Changes]:
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


def _put(connection: Connection, table: Table, change: Change, rows: _Rows) -> None:
    for part in _without_repeats(table, rows) if change is Change.UPSERT else (rows,):
        for begin in range(0, len(part), _MOST_ROWS):
            some = part[begin : begin + _MOST_ROWS]
            statement = _statement(table, change, len(some), connection.dialect)
            values = tuple(chain.from_iterable(row.values() for row in some))
            connection.exec_driver_sql(statement, values)


def _without_repeats(table: Table, rows: _Rows) -> Iterator[_Rows]:
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
