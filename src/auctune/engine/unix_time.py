"""Unix time that does not jump forward, the same in the processes of a service on one machine.

Slots and deadlines follow the machine's clock. When that clock is set forward by mistake, slots
pass in which nobody trained, jobs miss their deadlines and are refunded, and no later correction
brings them back. When it is set back, slots that are over would begin again. The time since boot
does not jump: it counts seconds, also those in which the process was stopped or the machine
suspended. So a step of the clock shows as a change of

    offset = unix time - time since boot.

A step forward up to a limit is believed. A larger one, or one back, is not: time goes on from the
largest offset that was believed, until the clock is back or the process is started anew. So time
never goes back within a process. Slot t of a zone runs from epoch + t * slot_seconds on this time.
"""

import math
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

_VARIABLE = "AUCTUNE_CLOCK"
_MAX_READ_SECONDS = 0.1

Now = Callable[[], float]
"""Returns the current unix time."""


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


# A deadline computed from a slot's end must still equal that end.
_EPSILON = 1e-6


def to_rfc3339(time: float) -> str:
    """Return unix time as text, to the millisecond: 2031-05-04T09:00:00Z."""
    moment = datetime.fromtimestamp(round(time, 3), UTC)
    return moment.isoformat().replace("+00:00", "Z")


@dataclass(frozen=True, slots=True)
class SlotClock:
    """Maps unix time to slots of `slot_seconds`, and back; slot 0 begins at `epoch`."""

    epoch: float
    slot_seconds: float
    now: Now

    def slot(self) -> int:
        return self.slot_at(self.now())

    def slot_at(self, time: float) -> int:
        """Return the slot that contains a time; 0 before the epoch."""
        return max(0, math.floor((time - self.epoch) / self.slot_seconds + _EPSILON))

    def slot_start(self, slot: int) -> float:
        return self.epoch + slot * self.slot_seconds

    def slot_end(self, slot: int) -> float:
        return self.slot_start(slot + 1)

    def last_slot_by(self, time: float) -> int:
        """Return the last slot that ends by a time; -1 if none does."""
        return math.floor((time - self.epoch) / self.slot_seconds + _EPSILON) - 1

    def first_slot_from(self, time: float) -> int:
        """Return the first slot that begins at a time or later; it may be negative."""
        return math.ceil((time - self.epoch) / self.slot_seconds - _EPSILON)

    def slots_for(self, seconds: float) -> int:
        """Return the number of whole slots that a duration takes, rounded up."""
        return max(0, math.ceil(seconds / self.slot_seconds - _EPSILON))
