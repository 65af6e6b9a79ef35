"""Unix time that does not jump forward, the same in the processes of a service on one machine.

Slots and deadlines follow the machine's clock. When that clock is set forward by mistake, slots
pass in which nobody trained, jobs miss their deadlines and are refunded, and no later correction
brings them back. The time since boot does not jump: it counts seconds, also those in which the
process was stopped or the machine suspended. So a step of the clock shows as a change of

    offset = unix time - time since boot.

A step forward of more than a limit is not believed: time goes on from the largest offset that was
believed, until the clock is back or the process is started anew. Steps back, and forward again to
where the clock was, are believed.
"""

import os
import time
from collections.abc import Callable

_VARIABLE = "AUCTUNE_CLOCK"

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
        self._offset = unix() - boot() if offset is None else offset

    def __call__(self) -> float:
        """Return unix time."""
        # In this order a process that is stopped in between sees the clock behind, and not ahead.
        unix = self._unix()
        boot = self._boot()
        step = unix - boot - self._offset
        if step > self._limit:
            return boot + self._offset
        if step > 0:
            self._offset += step
        return unix

    @property
    def seconds_ahead(self) -> float:
        """By how much the machine's clock is ahead of the time that is believed; 0: it is not."""
        step = self._unix() - self._boot() - self._offset
        return step if step > self._limit else 0.0

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
        return time.time
    limit, offset = map(float, shared.split(":"))
    return SteadyClock(limit, offset)


_now: Now | None = None


def unix_time() -> float:
    """Return unix time, as the service believes it whose child this process is."""
    global _now
    if _now is None:
        _now = _of_environment()
    return _now()
