"""Group commit: one thread writes all waiting batches in one transaction.

While a transaction waits for the disk, further batches queue up for the next one. So a lone batch
is written at once, and under load one flush of the disk serves many. After a transaction of several
batches more are likely: the next one begins some milliseconds after the last one began, because a
transaction costs statements, and turns of the interpreter, whatever its size (P. Helland et al.,
"Group Commit Timers and High Volume Transaction Systems", 1987).
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Self

import structlog
from sqlalchemy import Connection
from sqlalchemy.exc import (
    DataError,
    DBAPIError,
    IntegrityError,
    InterfaceError,
    ProgrammingError,
    StatementError,
)

from auctune.service.storage.batch import BatchError, StoreError, WriteBatch, write
from auctune.service.storage.engine import Store
from auctune.service.storage.event_log import SequenceNumbers

_log = structlog.get_logger(__name__)

MAX_BATCHES = 1000
"""Batches in one transaction."""
MAX_QUEUE = 10_000
"""Batches that wait before `submit` blocks."""
WINDOW_SECONDS = 0.008
"""Time between the starts of two transactions, if the first one had several batches."""

# Errors that the rows of a batch can cause; all others are the database's.
_BATCH_ERRORS = (DataError, IntegrityError, InterfaceError, ProgrammingError)


class Committer:
    """Writes batches in the order in which they are submitted; `close` ends it.

    A batch that cannot be written fails alone, with `BatchError`. If the database itself fails, or
    a vital batch, it and all later batches fail with `StoreError`, until store and committer are
    created again.

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
        self._failure: StoreError | None = None
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
        if self._failure is None:
            try:
                self._store.check_still_owned()
                errors = _write_together(self._store.writer, batches)
                return [
                    error or _follow_up(batch) for batch, error in zip(batches, errors, strict=True)
                ]
            except StoreError as error:
                self._failure = error
            except Exception as error:
                self._failure = StoreError(f"{self._store.label}: {_reason(error)}")
                # The text of a database error may quote rows; a defect of ours needs its place.
                self._failure.__cause__ = None if isinstance(error, StatementError) else error
            _log.error("the database failed", exc_info=self._failure)
        return [self._failure] * len(batches)


def _write_together(connection: Connection, batches: list[WriteBatch]) -> list[BatchError | None]:
    try:
        with connection.begin():
            write(connection, batches)
    except Exception as error:
        if not _is_batch_error(error):
            raise
        return _write_each(connection, batches)
    return [None] * len(batches)


def _write_each(connection: Connection, batches: list[WriteBatch]) -> list[BatchError | None]:
    """Do the same if at least one batch is bad: each behind a savepoint, all with one flush."""
    errors: list[BatchError | None] = []
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
    return errors


def _follow_up(batch: WriteBatch) -> Exception | None:
    if batch.then is not None:
        try:
            batch.then()
        except Exception as error:
            return error
    return None


def _is_batch_error(error: Exception) -> bool:
    if isinstance(error, DBAPIError):
        return isinstance(error, _BATCH_ERRORS) and not error.connection_invalidated
    # Values of a wrong type, or out of range, do not reach the database.
    return isinstance(error, StatementError | TypeError | ValueError | OverflowError)


def _reason(error: Exception) -> str:
    """Return what went wrong, without rows: databases quote them from the second line on."""
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
