"""What a run tells while it goes on."""

from typing import Protocol

from auctune.run.spot.state import SlotRecord
from auctune.train.job import Progress


class SpotListener(Protocol):
    """Who is told of a run; times are slots since the job began."""

    def slot_begun(self, record: SlotRecord) -> None:
        """A slot that is paid begins, or is taken up again by a run that goes on."""
        ...

    def trained(self, now: float, num_workers: int, progress: Progress) -> None:
        """Rows more have been trained, or a run goes on from where it was."""
        ...

    def taken_back(self, now: float, count: int) -> None:
        """Spot instances were taken away."""
        ...

    def slot_done(self, record: SlotRecord) -> None:
        """A slot is over, and a checkpoint written."""
        ...

    def ending_begun(self, now: float, num_instances: int) -> None:
        """The deadline has come before the end of the work."""
        ...

    def ending_held(self, since: float, until: float) -> None:
        """In the ending, instances were held from one moment to another."""
        ...

    def noted(self, text: str) -> None:
        """An operator should know this."""
        ...

    def data_noted(self, text: str) -> None:
        """Rows of the data are truncated or left out."""
        ...


class SilentListener:
    """Nobody."""

    def slot_begun(self, record: SlotRecord) -> None:
        """See `SpotListener`."""

    def trained(self, now: float, num_workers: int, progress: Progress) -> None:
        """See `SpotListener`."""

    def taken_back(self, now: float, count: int) -> None:
        """See `SpotListener`."""

    def slot_done(self, record: SlotRecord) -> None:
        """See `SpotListener`."""

    def ending_begun(self, now: float, num_instances: int) -> None:
        """See `SpotListener`."""

    def ending_held(self, since: float, until: float) -> None:
        """See `SpotListener`."""

    def noted(self, text: str) -> None:
        """See `SpotListener`."""

    def data_noted(self, text: str) -> None:
        """See `SpotListener`."""
