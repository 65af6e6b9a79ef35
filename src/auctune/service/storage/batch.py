"""Write batches: rows that are written together or not at all, in few SQL statements."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import cache
from itertools import chain
from typing import Any, Self

from sqlalchemy import Connection, Dialect, Table, bindparam, delete

from auctune.domain import AuctuneError
from auctune.service.storage.tables import NUMBERS, metadata

# Neither error quotes rows, which may be another user's.


class BatchError(AuctuneError):
    """A batch could not be written, and nothing of it was; other batches are not affected."""


class StoreError(AuctuneError):
    """The database cannot be used now.

    A batch may be in the database all the same, if the connection broke during the commit. Whoever
    opens the store again reads from it what was committed.
    """


class UnavailableError(StoreError):
    """The database is not where it was; it may come back."""


OnDone = Callable[[Exception | None], None]


class Change(Enum):
    """Kind of change to a table; a batch applies them in this order."""

    INSERT = "insert"
    UPSERT = "upsert"
    REMOVE = "remove"


def noop(_: Exception | None) -> None:
    """Ignore the outcome of a batch."""


class WriteBatch:
    """Rows to write in one transaction.

    Tables are written in the order of their references, whatever the order of calls. A batch is not
    changed any more once it has been submitted.

    Args:
        done: called with None after the commit, or with the error that prevented it; on the
            committer's thread, so it must be quick and must not raise.
        is_vital: whether later batches depend on it: if it cannot be written, none of them is.
        then: called on the committer's thread after the commit and before `done`, which gets what
            it raises.

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
        self.changes: dict[tuple[Table, Change], _Rows] = {}

    def insert(self, table: Table, *rows: Mapping[str, Any]) -> Self:
        """Add rows that must not exist yet. Nullable columns may be left out.

        Raises:
            ValueError: if a column is missing, of another type, or not one of the table's.
        """
        return self._append(table, Change.INSERT, (_full(table, row) for row in rows))

    def upsert(self, table: Table, *rows: Mapping[str, Any]) -> Self:
        """Add rows that replace those with the same primary key; otherwise as `insert`."""
        return self._append(table, Change.UPSERT, (_full(table, row) for row in rows))

    def remove(self, table: Table, *keys: Mapping[str, Any]) -> Self:
        """Remove rows by primary key; a row that does not exist is not an error."""
        names = {column.name for column in table.primary_key}
        for key in keys:
            if key.keys() != names:
                raise ValueError(f"{table.name}: key {sorted(key)}; expected {sorted(names)}")
        return self._append(table, Change.REMOVE, (dict(key) for key in keys))

    @property
    def last_number(self) -> int:
        """The greatest number of an event, entry or file that it inserts, or 0."""
        numbers = (
            row[column.name]
            for column in NUMBERS
            for row in self.changes.get((column.table, Change.INSERT), ())
        )
        return max(numbers, default=0)

    def _append(self, table: Table, change: Change, rows: Iterable[dict[str, Any]]) -> Self:
        added = list(rows)
        if added:
            self.changes.setdefault((table, change), []).extend(added)
        return self


def _full(table: Table, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return all columns in the table's order.

    Types are checked here, as both databases would accept some wrong ones.
    """
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
    """Return for each column its name, the types of its values, and their name in errors."""
    found = []
    for column in table.columns:
        kind = column.type.python_type
        types = (float, int) if kind is float else (kind,)
        empty = (type(None),) if column.nullable else ()
        found.append((column.name, types + empty, kind.__name__))
    return found


# Writing many batches. Rows with the same table and change are written together, for all batches
# at once. This changes the order among batches, which matters only if a table is changed in more
# than one way; a new group begins there.
#
# A statement takes many rows. Each statement releases Python's global lock and must get it back,
# which takes milliseconds while another thread computes: the number of statements counts.

_Rows = list[dict[str, Any]]
_Changes = dict[tuple[Table, Change], _Rows]

_TABLES = metadata.sorted_tables
# A row is inserted after those that it refers to, and removed before them.
_ORDER = [(table, change) for table in _TABLES for change in (Change.INSERT, Change.UPSERT)] + [
    (table, Change.REMOVE) for table in reversed(_TABLES)
]
# The driver caches a statement for each number of rows. This many rows stay far below the number
# of values that a statement may have.
_MAX_ROWS = 64


def write(connection: Connection, batches: Sequence[WriteBatch]) -> None:
    """Write batches; the caller begins the transaction and ends it."""
    for changes in _grouped(batches):
        for table, change in _ORDER:
            rows = changes.get((table, change))
            if not rows:
                continue
            if change is Change.REMOVE:
                _remove(connection, table, rows)
            else:
                _write_rows(connection, table, change, rows)


def _grouped(batches: Iterable[WriteBatch]) -> Iterator[_Changes]:
    """Yield the changes of successive batches, joined as far as their order does not matter."""
    joined: _Changes = {}
    for batch in batches:
        if joined and not _may_join(joined, batch.changes):
            yield joined
            joined = {}
        for place, rows in batch.changes.items():
            joined.setdefault(place, []).extend(rows)
    yield joined


def _may_join(joined: _Changes, added: _Changes) -> bool:
    both = {*joined, *added}
    return len({table for table, _ in both}) == len(both) and all(
        change is not Change.REMOVE for _, change in both
    )


def _remove(connection: Connection, table: Table, keys: _Rows) -> None:
    matches = (column == bindparam(column.name) for column in table.primary_key.columns)
    connection.execute(delete(table).where(*matches), keys)


def _write_rows(connection: Connection, table: Table, change: Change, rows: _Rows) -> None:
    for part in _split_duplicates(table, rows) if change is Change.UPSERT else (rows,):
        for begin in range(0, len(part), _MAX_ROWS):
            some = part[begin : begin + _MAX_ROWS]
            statement = _statement(table, change, len(some), connection.dialect)
            values = tuple(chain.from_iterable(row.values() for row in some))
            connection.exec_driver_sql(statement, values)


def _split_duplicates(table: Table, rows: _Rows) -> Iterator[_Rows]:
    """Yield rows in parts without duplicate keys: one statement may not upsert a row twice."""
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
    """Return a statement for so many rows, with values in the order of the table's columns."""
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
