"""The clock: slots follow it, so it must neither stand behind what it stamped nor drift.

Whether it is right cannot be seen on this machine alone. Two things can: that the kernel takes it
for unsynchronized (adjtimex(2) returns TIME_ERROR), and that it is behind files of its own making.
"""

import ctypes
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from auctune.service.doctor.finding import Finding, ok, warn, wrong
from auctune.service.doctor.installation import Installation

_TIME_ERROR = 5
# Longer than the kernel's struct timex on any machine.
_TIMEX_BYTES = 512
_BEHIND_SECONDS = 5.0


def look(at: Installation) -> Iterator[Finding]:
    """Whether it is synchronized, and not behind the data folder."""
    yield synchronized(kernel_state())
    newest = newest_time(at.data)
    if newest is not None:
        yield not_behind(newest, time.time())


def kernel_state() -> int | None:
    """What adjtimex says, which changes nothing with no mode set; none: it is not there."""
    try:
        adjtimex = ctypes.CDLL(None).adjtimex
    except AttributeError:
        return None
    state = int(adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES)))
    return None if state < 0 else state


def synchronized(state: int | None) -> Finding:
    """What the kernel's word is worth."""
    if state is None:
        return ok("clock", "the kernel does not say whether it is synchronized")
    if state != _TIME_ERROR:
        return ok("clock", "the kernel takes it for synchronized")
    said = "the kernel takes it for unsynchronized (a container's host may see to it all the same)"
    return warn("clock", said, "timedatectl set-ntp true, or chronyd")


def newest_time(data: Path) -> float | None:
    """When the data folder was last written, in unix time; none: there is nothing in it."""
    times = []
    # A service that runs makes files and removes them.
    with suppress(FileNotFoundError, NotADirectoryError):
        for path in data.iterdir():
            with suppress(FileNotFoundError):
                times.append(path.stat().st_mtime)
    return max(times, default=None)


def not_behind(newest: float, now: float) -> Finding:
    """Whether the clock is where it was, or later.

    Args:
        newest: when the data folder was last written.
        now: what the clock says.
    """
    behind = newest - now
    if behind > _BEHIND_SECONDS:
        said = (
            f"{behind:,.0f} s behind the last write in the data folder: slots would be sold again"
        )
        return wrong("clock", said, "set the clock, or wait, before auctune serve")
    return ok("clock", "not behind the data folder")
