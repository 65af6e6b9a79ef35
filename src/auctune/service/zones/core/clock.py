"""Slots on a wall clock: slot t runs from epoch + t * slot_seconds, in unix time."""

import math
from collections.abc import Callable
from dataclasses import dataclass

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
