"""What a run of the edge tells while it goes on."""

from collections.abc import Mapping
from typing import Protocol

from auctune.run.edge.state import JobRecord


class EdgeListener(Protocol):
    """Who is told of a run."""

    def offered(self, record: JobRecord) -> None:
        """A bid is answered."""
        ...

    def slot_begun(self, slot: int, records: list[JobRecord]) -> None:
        """These jobs train in it."""
        ...

    def went_on(self, shares: Mapping[str, float]) -> None:
        """Shares of their slot that jobs are through."""
        ...

    def trained(self, record: JobRecord, slot: int) -> None:
        """A job's slot is trained and saved."""
        ...

    def site_lost(self, site: str, records: list[JobRecord]) -> None:
        """A site is gone; what became of its jobs."""
        ...

    def slot_done(self, slot: int) -> None:
        """A slot is over."""
        ...

    def noted(self, text: str) -> None:
        """An operator should know this."""
        ...


class SilentListener:
    """Nobody."""

    def offered(self, record: JobRecord) -> None:
        """See `EdgeListener`."""

    def slot_begun(self, slot: int, records: list[JobRecord]) -> None:
        """See `EdgeListener`."""

    def went_on(self, shares: Mapping[str, float]) -> None:
        """See `EdgeListener`."""

    def trained(self, record: JobRecord, slot: int) -> None:
        """See `EdgeListener`."""

    def site_lost(self, site: str, records: list[JobRecord]) -> None:
        """See `EdgeListener`."""

    def slot_done(self, slot: int) -> None:
        """See `EdgeListener`."""

    def noted(self, text: str) -> None:
        """See `EdgeListener`."""
