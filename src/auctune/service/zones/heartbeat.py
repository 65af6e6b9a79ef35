"""A zone's time as it passes: what is to be done as each slot begins, and in between."""

import asyncio
import errno
from collections.abc import Awaitable, Callable

import structlog

from auctune.service.zones.clock import SlotClock

_LEAST_SECONDS = 0.01
_RETRY_SECONDS = 1.0
# Nothing is wrong with what the zone remembers, and clients go again.
_TRANSIENT = (errno.EMFILE, errno.ENFILE)

_log = structlog.get_logger(__name__)


async def beat(
    clock: SlotClock,
    do: Callable[[], Awaitable[None]],
    seconds: float,
    alarm: Callable[[Exception], None],
) -> None:
    """Do something for as long as the zone is open, also as soon as a slot begins.

    Args:
        clock: of the zone.
        do: what is to be done.
        seconds: the longest time between.
        alarm: called with what ends it: without its clock a zone would sell what nobody trains.
            That no more files can be opened does not end it.
    """
    try:
        while True:
            longest = seconds
            try:
                await do()
            except OSError as error:
                if error.errno not in _TRANSIENT:
                    raise
                _log.warning("too many open files", retry_seconds=_RETRY_SECONDS)
                longest = min(seconds, _RETRY_SECONDS)
            left = clock.slot_end(clock.slot()) - clock.now()
            await asyncio.sleep(max(_LEAST_SECONDS, min(left, longest)))
    except Exception as error:
        alarm(error)
