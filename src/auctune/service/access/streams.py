"""How many streams of events each key has open."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from auctune.service.access.open_jobs import TooManyError


class Streams:
    """Open streams by key; on one loop.

    Args:
        limit: of each key.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._open: Counter[str] = Counter()

    @contextmanager
    def one(self, key: str) -> Iterator[None]:
        """A stream, until the end of the block.

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
            raise TooManyError(f"{self._limit} streams are open by this key already")
