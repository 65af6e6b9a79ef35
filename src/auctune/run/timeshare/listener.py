"""Whoever wants to know how a run goes."""

from collections.abc import Sequence
from typing import Protocol

from auctune.run.timeshare.foresight import ThreadView
from auctune.run.timeshare.state import UnitRecord


class PoolListener(Protocol):
    """Told of everything, in the run's own time: it should be quick."""

    def unit_done(self, unit: UnitRecord, views: Sequence[ThreadView]) -> None:
        """A unit was trained, and is on record."""
        ...

    def noted(self, text: str) -> None:
        """An operator should know this."""
        ...


class SilentListener:
    """Nobody."""

    def unit_done(self, unit: UnitRecord, views: Sequence[ThreadView]) -> None:
        """See `PoolListener`."""

    def noted(self, text: str) -> None:
        """See `PoolListener`."""
