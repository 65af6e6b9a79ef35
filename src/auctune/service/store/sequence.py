"""Numbers that rise and are never given twice, for events, entries and files alike."""

import threading
from typing import Self

from sqlalchemy import Engine, func, select

from auctune.service.store.tables import entries, events, files


class SequenceNumbers:
    """The numbers after `last`; for any number of threads."""

    def __init__(self, last: int) -> None:
        self._next = last + 1
        self._lock = threading.Lock()

    @classmethod
    def of(cls, reader: Engine) -> Self:
        """The numbers after the greatest one that is stored."""
        with reader.connect() as connection:
            stored = [
                connection.execute(select(func.max(column))).scalar_one() or 0
                for column in (events.c.seq, entries.c.id, files.c.seq)
            ]
        return cls(max(stored))

    def take(self, count: int = 1) -> int:
        """The first of `count` successive numbers."""
        assert count >= 1
        with self._lock:
            first = self._next
            self._next += count
        return first
