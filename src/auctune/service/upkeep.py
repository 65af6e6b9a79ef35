"""Periodic checks of a running service: the machine's clock, and the trash of deleted files."""

import asyncio
from collections.abc import Callable

import structlog

from auctune.domain import AuctuneError
from auctune.run.unix_time import SteadyClock
from auctune.service.files.blobs import Trash

_log = structlog.get_logger(__name__)

_SECONDS = 1.0
_PURGE_SECONDS = 3600.0


class ClockError(AuctuneError):
    """The machine's clock has jumped forward: no bids are taken."""


def clock_fault(now: Callable[[], float]) -> str | None:
    """Return what is wrong with the machine's clock, or None."""
    ahead = now.seconds_ahead if isinstance(now, SteadyClock) else 0.0
    if ahead == 0.0:
        return None
    return (
        f"the machine's clock has jumped {ahead:,.0f} s forward; the service keeps the old time "
        "and takes no bids: set the clock back, or restart the service if the new time is right"
    )


async def keep_up(now: Callable[[], float], trash: Trash) -> None:
    """Log clock jumps and their end, and purge the trash every hour, until cancelled."""
    before, purge_in = None, 0.0
    while True:
        fault = clock_fault(now)
        if fault is not None and before is None:
            _log.critical("not ready", reason=fault)
        elif fault is None and before is not None:
            _log.warning("ready again: the machine's clock is back")
        before = fault
        if fault is None and purge_in <= 0.0:
            await asyncio.to_thread(trash.purge)
            purge_in = _PURGE_SECONDS
        purge_in -= _SECONDS
        await asyncio.sleep(_SECONDS)
