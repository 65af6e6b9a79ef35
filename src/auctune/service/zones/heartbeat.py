"""A zone's time as it passes: what is to be done as each slot begins, and in between."""

import asyncio
from collections.abc import Awaitable, Callable

from auctune.service.zones.clock import SlotClock

_LEAST_SECONDS = 0.01


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
        alarm: told what ends it: without its clock a zone would sell what nobody trains.
    """
    try:
        while True:
            await do()
            left = clock.ends(clock.slot()) - clock.now()
            await asyncio.sleep(max(_LEAST_SECONDS, min(left, seconds)))
    except Exception as error:
        alarm(error)
