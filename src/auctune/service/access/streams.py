"""How much of something each key has open at once: streams of events, requests."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from auctune.service.access.open_jobs import TooManyError


class Streams:
    """Open streams or requests by key; on one loop.

    Args:
        limit: of each key.
        what: they are, in the plural.
    """

    def __init__(self, limit: int, what: str = "streams") -> None:
        self._limit = limit
        self._what = what
        self._open: Counter[str] = Counter()

    @contextmanager
    def acquire(self, key: str) -> Iterator[None]:
        """One of them, until the end of the block.

        Raises:
            TooManyError: if there are as many as there may be.
        """
        self.check(key)
        self._open[key] += 1
        try:
            yield
        finally:
            self._open[key] -= 1
            if not self._open[key]:
                del self._open[key]

    def check(self, key: str) -> None:
        """Whether there may be one more.

        Raises:
            TooManyError: if not.
        """
        if self._open[key] >= self._limit:
            raise TooManyError(f"{self._limit} {self._what} of this key are open already")
