"""Slots on a wall clock: slot t runs from epoch + t * slot_seconds, in unix time."""

import math
from collections.abc import Callable
from dataclasses import dataclass

Now = Callable[[], float]
"""Tells the time, in unix seconds."""

# A deadline computed from a slot's end must still equal that end.
_EPSILON = 1e-6


@dataclass(frozen=True, slots=True)
class SlotClock:
    """Which slot it is.

    Attributes:
        epoch: unix time at which slot 0 began.
        slot_seconds: length of a slot.
        now: tells the time.
    """

    epoch: float
    slot_seconds: float
    now: Now

    def slot(self) -> int:
        """The current slot."""
        return self.slot_at(self.now())

    def slot_at(self, time: float) -> int:
        """The slot in which a moment lies; 0 before the epoch."""
        return max(0, math.floor((time - self.epoch) / self.slot_seconds + _EPSILON))

    def slot_start(self, slot: int) -> float:
        """When a slot begins."""
        return self.epoch + slot * self.slot_seconds

    def slot_end(self, slot: int) -> float:
        """When a slot ends."""
        return self.slot_start(slot + 1)

    def last_slot_by(self, time: float) -> int:
        """The last slot that ends by a moment; -1 if none does."""
        return math.floor((time - self.epoch) / self.slot_seconds + _EPSILON) - 1

    def first_slot_from(self, time: float) -> int:
        """The first slot that begins at a moment or later; below 0 long before the epoch."""
        return math.ceil((time - self.epoch) / self.slot_seconds - _EPSILON)

    def slots_for(self, seconds: float) -> int:
        """Whole slots that a span takes, rounded up."""
        return max(0, math.ceil(seconds / self.slot_seconds - _EPSILON))
