"""Progress as lines of text, where there is no terminal for a bar."""

import time
from collections.abc import Callable

# Between two lines on what takes long.
LINE_SECONDS = 10.0


class ProgressLines:
    """Progress as lines, where there is no terminal: one at the start of each step, then a few."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._doing, self._began, self._printed = "", 0.0, 0.0

    def line(self, what: str, share: float) -> str:
        """Return the line to be printed now; empty: none.

        Args:
            what: is being done.
            share: of it that is done; 0: not known.
        """
        now = self._clock()
        if share >= 1:
            # The next step says that this one is over.
            return ""
        if what != self._doing:
            self._doing, self._began, self._printed = what, now, now
            return f"{what} ..."
        if share <= 0 or now - self._printed < LINE_SECONDS:
            return ""
        self._printed = now
        return f"{what}: {share:.0%} after {now - self._began:.0f} s"
