"""Group commit: one thread writes all waiting batches in one transaction.

While a transaction waits for the disk, further units gather; they are the next one. So a lone unit
is written at once, and under load one flush of the disk serves many. Where units came together,
more are on their way: the next transaction begins some milliseconds after the last one began, as
each takes statements, and turns of the interpreter, whatever it holds (P. Helland et al., "Group
Commit Timers and High Volume Transaction Systems", 1987).
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
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

from auctune.service.storage.batch import WriteBatch, write
from auctune.service.storage.engine import Store
from auctune.service.storage.errors import StoreError, UnitError
from auctune.service.storage.event_log import SequenceNumbers

_log = structlog.get_logger(__name__)

# Errors that the rows of a batch can cause; all others are the database's.
_OF_UNITS = (DataError, IntegrityError, InterfaceError, ProgrammingError)


@dataclass(frozen=True, slots=True)
class WriteResult:
    """What became of a unit; no error means that it is on disk."""

    unit: WriteBatch
    error: Exception | None

    def notify(self) -> None:
        """Call the unit's `done`."""
        self.unit.done(self.error)


OnResults = Callable[[Sequence[WriteResult]], None]


def notify_all(outcomes: Sequence[WriteResult]) -> None:
    """Tell each unit, in order; one that cannot be told keeps nothing from the others."""
    for outcome in outcomes:
        try:
            outcome.notify()
        except Exception:
            _log.exception("an outcome could not be told")


@dataclass(frozen=True, slots=True)
class CommitterParams:
    """Of a committer.

    Attributes:
        max_batch: units in one transaction.
        max_queue: units that wait before `submit` blocks.
        batch_window_seconds: time between the starts of two transactions of several batches.
    """

    max_batch: int = 1000
    max_queue: int = 10_000
    batch_window_seconds: float = 0.008

    def __post_init__(self) -> None:
        for name in ("max_batch", "max_queue"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: {getattr(self, name)}; expected at least 1")
        if not 0 <= self.batch_window_seconds <= 1:
            raise ValueError(f"batch_window_seconds: {self.batch_window_seconds}; expected 0 to 1")


class Committer:
    """Writes units in the order in which they are submitted; ends with `close`.

    A unit that cannot be written fails alone, with `UnitError`. When the database itself fails,
    or a unit that others build on, this and all later units fail with `StoreError`, until store
    and committer are made anew.

    Args:
        store: not used for writing by anybody else meanwhile; closed by its owner, afterwards.
        deliver: given the outcomes of each transaction, on the committer's thread, in order. An
            asyncio loop is woken once a transaction by
            `lambda outcomes: loop.call_soon_threadsafe(tell_all, outcomes)`.
        params: limits.
    """

    def __init__(
        self,
        store: Store,
        deliver: OnResults = notify_all,
        params: CommitterParams | None = None,
    ) -> None:
        self._store = store
        self._deliver = deliver
        self._params = params or CommitterParams()
        self._numbers = SequenceNumbers.of(store.reader)
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
        """Why nothing is written any more; None while all is well."""
        return self._failure

    def next_seq(self, count: int = 1) -> int:
        """The first of `count` successive numbers that nobody else is given.

        They rise across the database. A reader that goes by them within a zone misses nothing if
        one thread takes the zone's numbers and submits its units in that order.
        """
        return self._numbers.take(count)

    def submit(self, unit: WriteBatch) -> None:
        """Have a unit written; returns at once unless too many wait already.

        Raises:
            StoreError: if the committer is closed. Everything else is told to the unit.
        """
        with self._changed:
            while len(self._waiting) >= self._params.max_queue and not self._closing:
                # From its own thread it would wait for itself.
                if threading.current_thread() is self._thread:
                    break
                self._changed.wait()
            if self._closing:
                raise StoreError(f"{self._store.label}: is being closed")
            self._waiting.append(unit)
            # Whoever writes looks by itself when it is done.
            if self._is_idle:
                self._is_idle = False
                self._changed.notify_all()

    def close(self) -> None:
        """Write what waits, tell it, and end. Safe to call again."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self) -> None:
        while units := self._take():
            outcomes = self._write(units)
            try:
                self._deliver(outcomes)
            except Exception:
                # A listener that is gone must not keep the others' units from the disk.
                _log.exception("outcomes could not be delivered", units=len(outcomes))

    def _take(self) -> list[WriteBatch]:
        """The next units to write, waiting for the first; none at the end."""
        with self._changed:
            while not self._waiting and not self._closing:
                self._is_idle = True
                self._changed.wait()
            self._is_idle = False
        time.sleep(max(0.0, self._next - time.monotonic()))
        with self._changed:
            count = min(len(self._waiting), self._params.max_batch)
            units = [self._waiting.popleft() for _ in range(count)]
            self._changed.notify_all()
        self._next = time.monotonic() + (self._params.batch_window_seconds if count > 1 else 0.0)
        return units

    def _write(self, units: list[WriteBatch]) -> list[WriteResult]:
        if self._failure is None:
            try:
                self._store.check_still_owned()
                errors = _write_together(self._store.writer, units)
                return [
                    WriteResult(unit, error or _follow_up(unit))
                    for unit, error in zip(units, errors, strict=True)
                ]
            except StoreError as error:
                self._failure = error
            except Exception as error:
                self._failure = StoreError(f"{self._store.label}: {_reason(error)}")
                # What a database says may quote rows; a fault of ours shows where it is.
                self._failure.__cause__ = None if isinstance(error, StatementError) else error
            _log.error("the database failed", exc_info=self._failure)
        return [WriteResult(unit, self._failure) for unit in units]


def _write_together(connection: Connection, units: list[WriteBatch]) -> list[UnitError | None]:
    """Write units in one transaction; each one's own error, if it had one."""
    try:
        with connection.begin():
            write(connection, units)
    except Exception as error:
        if not _is_of_a_unit(error):
            raise
        return _write_each(connection, units)
    return [None] * len(units)


def _write_each(connection: Connection, units: list[WriteBatch]) -> list[UnitError | None]:
    """The same where at least one is bad: each behind a savepoint, all with one flush."""
    errors: list[UnitError | None] = []
    with connection.begin():
        for unit in units:
            try:
                with connection.begin_nested():
                    write(connection, [unit])
            except Exception as error:
                if not _is_of_a_unit(error):
                    raise
                if unit.is_vital:
                    raise StoreError(f"what others build on is lost: {_reason(error)}") from None
                errors.append(UnitError(_reason(error)))
            else:
                errors.append(None)
    return errors


def _follow_up(unit: WriteBatch) -> Exception | None:
    """Do what a unit has done once it is written; its error, which is nobody else's."""
    if unit.then is not None:
        try:
            unit.then()
        except Exception as error:
            return error
    return None


def _is_of_a_unit(error: Exception) -> bool:
    if isinstance(error, DBAPIError):
        return isinstance(error, _OF_UNITS) and not error.connection_invalidated
    # Values of a wrong type, or too large, do not get as far as the database.
    return isinstance(error, StatementError | TypeError | ValueError | OverflowError)


def _reason(error: Exception) -> str:
    """What went wrong without the rows: databases quote them from the second line on."""
    if isinstance(error, StatementError) and error.orig is not None:
        cause: BaseException = error.orig
        quotes = isinstance(error, DataError)
    else:
        cause, quotes = error, not isinstance(error, DBAPIError)
    lines = str(cause).splitlines()
    name = type(cause).__name__
    return name if quotes or not lines else f"{name}: {lines[0]}"


# Commit from the event loop.


async def durable(committer: Committer, unit: WriteBatch) -> None:
    """Submit a unit, and wait until it has been committed.

    Raises:
        UnitError: if this unit could not be written, and nothing of it was.
        StoreError: if the database failed.
    """
    future: Future[None] = Future()
    # A caller that is cancelled cannot cancel the write; the results of others are not affected.
    future.set_running_or_notify_cancel()

    def done(error: Exception | None) -> None:
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)

    unit.done = done
    committer.submit(unit)
    await asyncio.wrap_future(future)
