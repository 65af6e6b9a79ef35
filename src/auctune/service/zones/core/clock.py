"""Slots on a wall clock: slot t runs from epoch + t * slot_seconds, in unix time."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from auctune.domain import AuctuneError
from auctune.engine.unix_time import SteadyClock
from auctune.service.jobs.terms import to_rfc3339

Now = Callable[[], float]
"""Returns the current unix time."""

# A deadline computed from a slot's end must still equal that end.
_EPSILON = 1e-6


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


class ClockError(AuctuneError):
    """The machine's clock is wrong, or was: no bids are taken."""


def clock_fault(now: Now) -> str | None:
    """Return what is wrong with the machine's clock, or None."""
    seconds = now.seconds_off if isinstance(now, SteadyClock) else 0.0
    if seconds == 0.0:
        return None
    direction, remedy = ("forward", "back") if seconds > 0 else ("back", "forward again")
    return (
        f"the machine's clock has jumped {abs(seconds):,.0f} s {direction}; the service keeps the "
        f"old time and takes no bids: set the clock {remedy}, or restart the service if the new "
        "time is right"
    )


class FutureLogs:
    """Zones whose logs end later than the clock says: it was ahead, and has been corrected.

    Until the clock has reached that time, such a zone takes no bids and trains nothing: its slots
    up to then are over.

    Args:
        ends: time of the newest event, by zone.
    """

    def __init__(self, ends: Mapping[str, float], now: Now) -> None:
        self._ends = {zone: end for zone, end in ends.items() if end > now()}
        self._now = now

    def fault(self, zone: str) -> str | None:
        """Return why a zone takes no bids now, or None."""
        end, now = self._ends.get(zone, 0.0), self._now()
        if end <= now:
            return None
        return (
            f"the log of zone {zone} ends at {to_rfc3339(end)}, and the machine's clock is at "
            f"{to_rfc3339(now)}: the zone takes no bids until the clock has reached the log"
        )

    def any_fault(self) -> str | None:
        """Return the fault of one of the zones, or None."""
        return next(filter(None, map(self.fault, self._ends)), None)
