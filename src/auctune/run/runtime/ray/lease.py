"""How long an actor may go on without its market, such that the market knows when that is over.

The actor's lease ends L seconds after it gave the newest reply that the market has acknowledged.
The market got that reply later than it was given: L seconds after the last one that it got, the
lease is over, however long messages are on their way. Both count by their own clocks, which must
run alike but need not agree (Gray and Cheriton, "Leases", SOSP 1989).
"""

from collections.abc import Callable


class Lease:
    """The actor's side.

    Args:
        seconds: L.
        now: seconds that never jump.
    """

    def __init__(self, seconds: float, now: Callable[[], float]) -> None:
        self._seconds = seconds
        self._now = now
        self._replied = {0: now()}
        self._end = now() + seconds

    @property
    def left(self) -> float:
        """Seconds; less than none once it is over."""
        return self._end - self._now()

    def replied(self, number: int) -> None:
        """A reply of this number, from 1 on, is given."""
        self._replied[number] = self._now()

    def acknowledged(self, number: int) -> None:
        """The market has got this reply; 0: none yet."""
        given = self._replied.get(number)
        # What was acknowledged before, or again, extends nothing.
        if given is not None:
            self._end = max(self._end, given + self._seconds)
            self._replied = {one: at for one, at in self._replied.items() if one >= number}
