"""A timeshare zone's memory in words, as a zone's keeper asks for it."""

from typing import Any

from auctune.service.zones.timeshare.memory import saved_state
from auctune.service.zones.timeshare.zone import TimeshareZone


class TimeshareSaver:
    """Of one zone."""

    def seq(self, zone: TimeshareZone) -> int:
        """Of the newest event that the memory knows."""
        return zone.state.seq

    def prepare(self, zone: TimeshareZone) -> bool:
        """Nothing: who shares one pool is not many."""
        return True

    def save(self, zone: TimeshareZone) -> dict[str, Any]:
        """All that the zone remembers."""
        return saved_state(zone.state)
