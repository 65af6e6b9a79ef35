"""A link to a worker that has yet to be placed: it is there once the worker has called."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from auctune.run.spot.link import Floats32, Link, LinkClosedError, Parcel


class LateLink:
    """A `Link` that waits for its other end."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._link: Link | None = None
        self._is_closed = False

    @property
    def has_begun(self) -> bool:
        """Whether the other end is, or was, there."""
        return self._link is not None

    @property
    def is_closed(self) -> bool:
        """Whether nothing will come any more."""
        return self._is_closed

    def begin(self, link: Link) -> bool:
        """The other end is there; false, and it is let go of, if nobody waits for it any more."""
        with self._changed:
            is_late = self._is_closed or self._link is not None
            if not is_late:
                self._link = link
                self._changed.notify_all()
        if is_late:
            link.close()
        return not is_late

    def send(self, words: dict[str, Any], numbers: Floats32 | None = None) -> None:
        """See `Link`."""
        with self._noticing():
            self._there().send(words, numbers)

    def receive(self) -> Parcel:
        """See `Link`."""
        with self._noticing():
            return self._there().receive()

    def close(self) -> None:
        """See `Link`."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if self._link is not None:
            self._link.close()

    @contextmanager
    def _noticing(self) -> Iterator[None]:
        """Whoever notices first that the other end is gone, sending or receiving, says so."""
        try:
            yield
        except LinkClosedError:
            self._is_closed = True
            raise

    def _there(self) -> Link:
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or self._link is not None)
            if self._link is None:
                raise LinkClosedError("nobody came")
            return self._link
