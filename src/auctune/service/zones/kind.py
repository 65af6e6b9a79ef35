"""What the service must know of a kind of zone; `auctune.service.zones.kinds` lists them."""

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from auctune.run.base_facts import Alone, BaseFacts, Report
from auctune.service.config.zone import ZoneConfig
from auctune.service.zones.clock import SlotClock
from auctune.service.zones.job_row import JobRow
from auctune.service.zones.open_zone import OpenZone
from auctune.service.zones.premises import Place, Premises
from auctune.service.zones.told import Told
from auctune.service.zones.workshop import Workshop

Facts = Mapping[str, BaseFacts]
"""What was measured of a zone's base, by type of node."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A zone that is open, and what runs its jobs."""

    zone: OpenZone
    workshop: Workshop


class Preparing(Protocol):
    """Something that goes on beside the measuring of bases."""

    def wait(self, report: Report) -> None:
        """Until it is done.

        Args:
            report: told how far it is.
        """
        ...


class Views(Protocol):
    """What readers see of jobs of this kind."""

    @property
    def messages(self) -> Mapping[str, Told]:
        """How events are told to a job's owner, by kind; others are not."""
        ...

    def market(self, row: JobRow, clock: SlotClock) -> dict[str, Any]:
        """The market's part of a job: the fields of `MarketPart` of the API."""
        ...

    def finish(self, row: JobRow, clock: SlotClock) -> float | None:
        """When a job is expected to be done, in unix time; none: that is not known."""
        ...


class ZoneKind(Protocol):
    """One kind of zone."""

    @property
    def views(self) -> Views:
        """What readers see of its jobs."""
        ...

    def check(self, entry: ZoneConfig, place: str, now: float) -> None:
        """Refuse settings that a start would refuse in the middle.

        Args:
            entry: of a zone of this kind.
            place: of its table, for errors.
            now: unix time.

        Raises:
            InputError: for the first thing that is wrong.
        """
        ...

    def prepare(self, entries: Iterable[ZoneConfig]) -> AbstractContextManager[Preparing]:
        """Begin what can be done while bases are measured; all of it ends with the context."""
        ...

    def profile(self, entry: ZoneConfig, place: Place, report: Report, alone: Alone) -> Facts:
        """What must be known of a zone's base; measured once on this machine.

        Raises:
            InputError: for an unknown base or device, or a profile that cannot be used.
        """
        ...

    async def open(self, entry: ZoneConfig, facts: Facts, premises: Premises) -> Opened:
        """A zone as it stood.

        Raises:
            InputError: if its settings are not those that it was opened with.
        """
        ...
