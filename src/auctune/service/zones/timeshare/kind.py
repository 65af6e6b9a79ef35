"""Zones of kind `timeshare`, as the service knows a kind."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from auctune.run.base_facts import Alone, BaseFacts, Report, learn_base
from auctune.service.settings.timeshare_entry import TimeshareEntry
from auctune.service.settings.zone_entry import ZoneEntry
from auctune.service.zones.kind import Facts, Opened
from auctune.service.zones.premises import Place, Premises
from auctune.service.zones.timeshare.opening import NODE_TYPE, TimeshareOpening, pool_settings
from auctune.service.zones.timeshare.views import TimeshareViews


class Nothing:
    """There is nothing to prepare."""

    def wait(self, report: Report) -> None:
        """It is done."""


class TimeshareZones:
    """All that the service must know of timeshare zones."""

    @property
    def views(self) -> TimeshareViews:
        """What readers see of their jobs."""
        return TimeshareViews()

    def check(self, entry: ZoneEntry, place: str, now: float) -> None:
        """The schema has said all."""

    @contextmanager
    def prepare(self, entries: Iterable[ZoneEntry]) -> Iterator[Nothing]:
        """Nothing."""
        yield Nothing()

    def learn(
        self, entry: ZoneEntry, place: Place, report: Report, alone: Alone
    ) -> dict[str, BaseFacts]:
        """What must be known of a zone's base; measured once on this machine."""
        settings = pool_settings(_own(entry), place)
        kept = place.data / "profiles"
        return {NODE_TYPE: learn_base(settings, kept, report, alone=alone)}

    async def open(self, entry: ZoneEntry, facts: Facts, premises: Premises) -> Opened:
        """A zone as it stood."""
        return await TimeshareOpening(premises).open(_own(entry), facts)


def _own(entry: ZoneEntry) -> TimeshareEntry:
    assert isinstance(entry, TimeshareEntry)
    return entry
