"""What a zone remembers, as a restart makes it anew: of a snapshot, and of events after it."""

from typing import Protocol

from auctune.service.zones.change import Change
from auctune.service.zones.event import ZoneEvent


class Memory(Protocol):
    """State of a zone, and whatever decides by it."""

    @property
    def seq(self) -> int:
        """Of the newest event applied; 0 before the first."""
        ...

    def load(self, body: bytes) -> None:
        """Take over a snapshot, into a memory that is empty.

        Raises:
            ValueError: if it cannot be read, or is of other settings.
            InputError, KeyError, TypeError: likewise.
        """
        ...

    def apply(self, event: ZoneEvent) -> Change:
        """Take over one event; what it changes for readers."""
        ...
