"""Units as statements: many units, few statements, as if they had been written one by one.

Statements of one kind on one table are run together, for all units at once. That changes the order
among units, which shows only where a table is changed in more than one way; there a new stretch
begins. A transaction is one stretch or more.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any

from sqlalchemy import Connection, Executable, Table, bindparam, delete
from sqlalchemy.dialects import postgresql, sqlite

from auctune.service.store.tables import metadata
from auctune.service.store.unit import Change, Unit

Changes = dict[tuple[Table, Change], list[dict[str, Any]]]

_TABLES = metadata.sorted_tables
# What refers to a row is made after it and removed before it.
_ORDER = [(table, change) for table in _TABLES for change in (Change.INSERT, Change.UPSERT)] + [
    (table, Change.REMOVE) for table in reversed(_TABLES)
]


def write(connection: Connection, units: Sequence[Unit]) -> None:
    """Write units; the caller has begun a transaction and ends it."""
    for changes in stretches(units):
        for table, change in _ORDER:
            rows = changes.get((table, change))
            if rows:
                statement = _statement(table, change, connection.dialect.name)
                connection.execute(statement, rows)


def stretches(units: Iterable[Unit]) -> Iterator[Changes]:
    """Changes of successive units, joined as far as their order does not matter."""
    joined: Changes = {}
    for unit in units:
        if joined and not _may_join(joined, unit.changes):
            yield joined
            joined = {}
        for place, rows in unit.changes.items():
            joined.setdefault(place, []).extend(rows)
    yield joined


def _may_join(joined: Changes, added: Changes) -> bool:
    both = {*joined, *added}
    return len({table for table, _ in both}) == len(both) and all(
        change is not Change.REMOVE for _, change in both
    )


@cache
def _statement(table: Table, change: Change, dialect: str) -> Executable:
    if change is Change.REMOVE:
        keys = table.primary_key.columns
        return delete(table).where(*(column == bindparam(column.name) for column in keys))
    insert = sqlite.insert(table) if dialect == "sqlite" else postgresql.insert(table)
    if change is Change.INSERT:
        return insert
    keys = table.primary_key.columns
    replaced = {
        column.name: insert.excluded[column.name] for column in table.columns if not column.primary_key
    }
    return insert.on_conflict_do_update(index_elements=list(keys), set_=replaced)
