"""Group commit: one thread writes all waiting batches in one transaction.

While a transaction waits for the disk, further batches queue up for the next one. So a lone batch
is written at once, and under load one flush of the disk serves many. After a transaction of several
batches more are likely: the next one begins some milliseconds after the last one began, because a
transaction costs statements, and turns of the interpreter, whatever its size (P. Helland et al.,
"Group Commit Timers and High Volume Transaction Systems", 1987).

If the database cannot be written for a while (its server restarts, its disk is full, another
process locks it), the batches wait: nothing is acknowledged and nothing is lost. The committer
connects again until the database is back, and checks that its log ends where it did. A transaction
whose commit was interrupted is in the database as a whole or not at all, which a row of it shows.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from enum import Enum
from functools import cache
from itertools import chain
from typing import Any, Self, TypeVar

import structlog
from sqlalchemy import Connection, Dialect, Table, bindparam, delete, literal, select
from sqlalchemy.exc import (
    DataError,
    DBAPIError,
    IntegrityError,
    InterfaceError,
    ProgrammingError,
    StatementError,
)

from auctune.domain import AuctuneError, InputError
from auctune.service.storage.engine import Store, StoreError, UnavailableError
from auctune.service.storage.event_log import SequenceNumbers, last_number
from auctune.service.storage.tables import NUMBERS, metadata


class BatchError(AuctuneError):
    """A batch could not be written, and nothing of it was; other batches are not affected.

    It quotes no rows, which may be another user's.
    """


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


_log = structlog.get_logger(__name__)

MAX_BATCHES = 1000
"""Batches in one transaction."""
MAX_QUEUE = 10_000
"""Batches that wait before `submit` blocks."""
WINDOW_SECONDS = 0.008
"""Time between the starts of two transactions, if the first one had several batches."""
MIN_RETRY_SECONDS, MAX_RETRY_SECONDS = 0.1, 5.0
"""Time between attempts to reach a database that cannot be written; it doubles."""

_WORK_RETRY_SECONDS = 1.0

T = TypeVar("T")

# Errors that the rows of a batch can cause; all others are the database's.
_BATCH_ERRORS = (DataError, IntegrityError, InterfaceError, ProgrammingError)


class Committer:
    """Writes batches in the order in which they are submitted; `close` ends it.

    A batch that cannot be written fails alone, with `BatchError`. While the database cannot be
    written, batches wait, and `outage` says why. If a vital batch fails, or the database that is
    back has another log, it and all later batches fail with `StoreError`, until store and committer
    are created again.

    Args:
        store: nothing else writes to it meanwhile; its owner closes it after the committer.
        max_batches, max_queue, window_seconds: see the constants.
    """

    def __init__(
        self,
        store: Store,
        *,
        max_batches: int = MAX_BATCHES,
        max_queue: int = MAX_QUEUE,
        window_seconds: float = WINDOW_SECONDS,
    ) -> None:
        self._store = store
        self._max_batches = max_batches
        self._max_queue = max_queue
        self._window_seconds = window_seconds
        self._numbers = SequenceNumbers.after_stored(store.reader)
        # The greatest number in the database.
        self._last_stored = self._numbers.last
        self._failure: StoreError | None = None
        self._outage: StoreError | None = None
        self._outage_began = 0.0
        self._pause = MIN_RETRY_SECONDS
        self._waiting: deque[WriteBatch] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._is_idle = False
        # When the next transaction may begin, by the monotonic clock.
        self._next = 0.0
        self._thread = threading.Thread(target=self._run, name="committer", daemon=True)
        self._thread.start()

    @property
    def failure(self) -> StoreError | None:
        """Why nothing is written any more, or None."""
        return self._failure

    @property
    def outage(self) -> StoreError | None:
        """Why nothing is written now, or None."""
        return self._failure or self._outage

    def next_seq(self, count: int = 1) -> int:
        """Return the first of `count` consecutive numbers that are not used otherwise.

        Numbers rise across the database. A reader that follows those of a zone misses nothing if
        one thread takes the zone's numbers and submits its batches in that order.
        """
        return self._numbers.take(count)

    def submit(self, batch: WriteBatch) -> None:
        """Queue a batch; return at once unless too many wait already.

        Errors go to the batch's `done`; only a closed committer raises StoreError here.
        """
        with self._changed:
            while len(self._waiting) >= self._max_queue and not self._closing:
                # The committer's own thread would wait for itself.
                if threading.current_thread() is self._thread:
                    break
                self._changed.wait()
            if self._closing:
                raise StoreError(f"{self._store.label}: is being closed")
            self._waiting.append(batch)
            # A thread that is writing checks the queue when it is done.
            if self._is_idle:
                self._is_idle = False
                self._changed.notify_all()

    def close(self) -> None:
        """Write what waits, and end. May be called again."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self) -> None:
        while batches := self._take():
            for batch, error in zip(batches, self._write(batches), strict=True):
                try:
                    batch.done(error)
                except Exception:
                    _log.exception("callback of a write batch failed")

    def _take(self) -> list[WriteBatch]:
        """Wait for batches, and return those to write next, or none at the end."""
        with self._changed:
            while not self._waiting and not self._closing:
                self._is_idle = True
                self._changed.wait()
            self._is_idle = False
        time.sleep(max(0.0, self._next - time.monotonic()))
        with self._changed:
            count = min(len(self._waiting), self._max_batches)
            batches = [self._waiting.popleft() for _ in range(count)]
            self._changed.notify_all()
        self._next = time.monotonic() + (self._window_seconds if count > 1 else 0.0)
        return batches

    def _write(self, batches: list[WriteBatch]) -> Sequence[Exception | None]:
        while self._failure is None:
            errors: list[BatchError | None] = []
            try:
                try:
                    self._store.check_still_owned()
                    _write_together(self._store.writer, batches, errors)
                except (DBAPIError, UnavailableError) as error:
                    if not self._reconnect(error, batches, errors):
                        continue
            except StoreError as error:
                self._fail(error)
            except Exception as error:
                failure = StoreError(f"{self._store.label}: {_reason(error)}")
                # The text of a database error may quote rows; a defect of ours needs its place.
                failure.__cause__ = None if isinstance(error, StatementError) else error
                self._fail(failure)
            else:
                self._last_stored = self._last_after(batches, errors)
                self._recovered()
                return [
                    error or self._follow_up(batch)
                    for batch, error in zip(batches, errors, strict=True)
                ]
        return [self._failure] * len(batches)

    def _fail(self, failure: StoreError) -> None:
        _log.error("the database failed", exc_info=failure)
        self._failure = failure

    def _reconnect(
        self, cause: Exception, batches: list[WriteBatch], errors: list[BatchError | None]
    ) -> bool:
        """Wait until the database can be written; return whether it has the batches already.

        Raises:
            StoreError: if the database that is back is not as it was left, or on `close`.
        """
        reason = _reason(cause)
        if self._outage is None:
            is_named = isinstance(cause, StoreError)
            self._outage = StoreError(reason if is_named else f"{self._store.label}: {reason}")
            self._outage_began = time.monotonic()
            _log.error("the database cannot be written", reason=str(self._outage))
        while True:
            with self._changed:
                if self._changed.wait_for(lambda: self._closing, self._pause):
                    raise self._outage
            self._pause = min(2 * self._pause, MAX_RETRY_SECONDS)
            try:
                self._store.reconnect()
                is_committed = _is_committed(self._store.writer, batches, errors)
                last = last_number(self._store.writer)
            except (DBAPIError, InputError, UnavailableError) as error:
                if reason != (reason := _reason(error)):
                    _log.warning("the database is not back yet", reason=reason)
                continue
            expected = self._last_after(batches, errors) if is_committed else self._last_stored
            if last != expected:
                raise StoreError(
                    f"{self._store.label}: its log ends at number {last}, and not at {expected}: "
                    "it was restored, or written by another process"
                )
            return is_committed

    def _recovered(self) -> None:
        self._pause = MIN_RETRY_SECONDS
        if self._outage is not None:
            self._outage = None
            seconds = round(time.monotonic() - self._outage_began, 1)
            _log.warning("the database is written again", seconds=seconds)

    def _last_after(self, batches: list[WriteBatch], errors: list[BatchError | None]) -> int:
        """Return the greatest number in the database after the batches."""
        written = (batch for batch, error in zip(batches, errors, strict=True) if error is None)
        return max((self._last_stored, *(batch.last_number for batch in written)))

    def _follow_up(self, batch: WriteBatch) -> Exception | None:
        if batch.then is not None:
            try:
                batch.then()
            except DBAPIError as error:
                return StoreError(f"{self._store.label}: {_reason(error)}")
            except Exception as error:
                return error
        return None


def _write_together(
    connection: Connection, batches: list[WriteBatch], errors: list[BatchError | None]
) -> None:
    """Write batches; `errors` gets the error of each, or None, before the commit."""
    try:
        with connection.begin():
            write(connection, batches)
            errors.extend([None] * len(batches))
    except Exception as error:
        if not _is_batch_error(error):
            raise
        errors.clear()
        _write_each(connection, batches, errors)


def _write_each(
    connection: Connection, batches: list[WriteBatch], errors: list[BatchError | None]
) -> None:
    """Do the same if at least one batch is bad: each behind a savepoint, all with one flush."""
    with connection.begin():
        for batch in batches:
            try:
                with connection.begin_nested():
                    write(connection, [batch])
            except Exception as error:
                if not _is_batch_error(error):
                    raise
                if batch.is_vital:
                    raise StoreError(f"a vital write failed: {_reason(error)}") from None
                errors.append(BatchError(_reason(error)))
            else:
                errors.append(None)


def _is_committed(
    connection: Connection, batches: list[WriteBatch], errors: list[BatchError | None]
) -> bool:
    """Return whether a transaction was committed whose end is not known.

    One that inserts no rows counts as not committed: written again, it leaves the same rows.
    """
    if len(errors) < len(batches):
        return False
    for batch, error in zip(batches, errors, strict=True):
        for (table, change), rows in batch.changes.items():
            if error is None and change is Change.INSERT:
                matches = (column == rows[0][column.name] for column in table.primary_key)
                with connection.begin():
                    query = select(literal(1)).select_from(table).where(*matches)
                    return connection.execute(query).first() is not None
    return False


def _is_batch_error(error: Exception) -> bool:
    if isinstance(error, DBAPIError):
        if error.connection_invalidated:
            return False
        # A row beyond a limit of PostgreSQL, which it reports like a failure of the server.
        is_too_large = str(getattr(error.orig, "sqlstate", "")).startswith("54")
        return isinstance(error, _BATCH_ERRORS) or is_too_large
    # Values of a wrong type, or out of range, do not reach the database.
    return isinstance(error, StatementError | TypeError | ValueError | OverflowError)


def _reason(error: Exception) -> str:
    """Return what went wrong, without rows: databases quote them from the second line on."""
    if isinstance(error, AuctuneError):
        return str(error)
    if isinstance(error, StatementError) and error.orig is not None:
        cause: BaseException = error.orig
        quotes = isinstance(error, DataError)
    else:
        cause, quotes = error, not isinstance(error, DBAPIError)
    lines = str(cause).splitlines()
    name = type(cause).__name__
    return name if quotes or not lines else f"{name}: {lines[0]}"


async def durable(committer: Committer, batch: WriteBatch) -> None:
    """Submit a batch from an event loop, and wait until it has been committed.

    Raises:
        BatchError: if this batch could not be written, and nothing of it was.
        StoreError: if the database failed.
    """
    future: Future[None] = Future()
    # Cancelling the caller cancels neither the write nor the callbacks of other batches.
    future.set_running_or_notify_cancel()

    def done(error: Exception | None) -> None:
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)

    batch.done = done
    committer.submit(batch)
    await asyncio.wrap_future(future)


async def retry_outages(work: Callable[[], Awaitable[T]]) -> T:
    """Do work, again and again while the database cannot be used."""
    while True:
        try:
            return await work()
        except StoreError as error:
            _log.warning("background work waits for the database", reason=str(error))
            await asyncio.sleep(_WORK_RETRY_SECONDS)
