"""Unix time that does not jump forward, the same in the processes of a service on one machine.

Slots and deadlines follow the machine's clock. When that clock is set forward by mistake, slots
pass in which nobody trained, jobs miss their deadlines and are refunded, and no later correction
brings them back. When it is set back, slots that are over would begin again. The time since boot
does not jump: it counts seconds, also those in which the process was stopped or the machine
suspended. So a step of the clock shows as a change of

    offset = unix time - time since boot.

A step forward up to a limit is believed. A larger one, or one back, is not: time goes on from the
largest offset that was believed, until the clock is back or the process is started anew. So time
never goes back within a process.
"""

import math
import os
import threading
import time
from collections.abc import Callable

_VARIABLE = "AUCTUNE_CLOCK"
_MAX_READ_SECONDS = 0.1

Now = Callable[[], float]


def since_boot() -> float:
    """Return seconds since boot."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class SteadyClock:
    """A clock that is called for unix time; for any number of threads.

    Args:
        limit: seconds of the largest step forward that is believed.
        offset: largest one believed so far; None: that of now.
        unix: returns unix time by the machine's clock.
        boot: returns seconds since boot.
    """

    def __init__(
        self,
        limit: float,
        offset: float | None = None,
        unix: Now = time.time,
        boot: Now = since_boot,
    ) -> None:
        self._limit = limit
        self._unix, self._boot = unix, boot
        self._lock = threading.Lock()
        self._offset = self._read_offset() if offset is None else offset

    def __call__(self) -> float:
        """Return unix time."""
        offset = self._read_offset()
        if self._offset < offset <= self._offset + self._limit:
            with self._lock:
                self._offset = max(self._offset, offset)
        return self._boot() + self._offset

    @property
    def seconds_off(self) -> float:
        """By how much the machine's clock is ahead of the time that is believed, or behind (< 0).

        0 if it is no more than the limit.
        """
        step = self._read_offset() - self._offset
        return step if abs(step) > self._limit else 0.0

    def _read_offset(self) -> float:
        while True:
            before = self._boot()
            unix = self._unix()
            after = self._boot()
            # A process that was stopped in between reads them again.
            if after - before < _MAX_READ_SECONDS:
                return unix - after

    def share(self) -> None:
        """Have the children that this process starts from now on believe the same."""
        global _shared
        _shared = self
        os.environ |= self.environment()

    def environment(self) -> dict[str, str]:
        """Return the environment variable by which a child begins with what is believed now."""
        self()
        return {_VARIABLE: f"{self._limit!r}:{self._offset!r}"}


_shared: SteadyClock | None = None


def clock_environment() -> dict[str, str]:
    """Return the environment variable for a child that is started now; empty if none is shared.

    Steps that were believed one by one may be more than the limit in sum: a child that began with
    the offset of this process's start would not believe them.
    """
    return {} if _shared is None else _shared.environment()


def _of_environment() -> Now:
    shared = os.environ.get(_VARIABLE)
    if shared is None:
        # Every step forward is believed.
        return SteadyClock(math.inf)
    limit, offset = map(float, shared.split(":"))
    return SteadyClock(limit, offset)


_now: Now | None = None


def unix_time() -> float:
    """Return unix time, as the service believes it whose child this process is."""
    global _now
    if _now is None:
        _now = _of_environment()
    return _now()
