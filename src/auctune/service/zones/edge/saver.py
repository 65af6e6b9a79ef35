"""An edge zone's memory in words, as a zone's keeper asks for it."""

from typing import Any

from auctune.service.zones.edge.zone import EdgeZone


class EdgeSaver:
    """Of one zone."""

    def seq(self, zone: EdgeZone) -> int:
        """Of the newest event that the memory knows."""
        return zone.state.seq

    def prepare(self, zone: EdgeZone) -> bool:
        """Nothing: who trains at the same sites is not many."""
        return True

    def save(self, zone: EdgeZone) -> dict[str, Any]:
        """All that the zone remembers."""
        return zone.memory.save()
