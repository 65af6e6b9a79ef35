"""Where a zone's events go before anybody hears of them."""

from collections.abc import Callable, Sequence
from typing import Protocol

from auctune.service.zones.change import Change
from auctune.service.zones.event import ZoneEvent

Done = Callable[[Exception | None], None]
"""Called once events are on disk, or with what went wrong."""


class Recorder(Protocol):
    """The log, as a zone sees it."""

    def next_seq(self) -> int:
        """The next number of the log."""
        ...

    def record(self, happened: Sequence[tuple[ZoneEvent, Change]], done: Done) -> None:
        """Write events and what they change, all or nothing, in the order of calls; then say so."""
        ...
