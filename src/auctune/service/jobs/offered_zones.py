"""Which zone a request is for, and whether it takes bids now."""

from collections.abc import Iterator, Mapping

from auctune.domain import AuctuneError, InputError
from auctune.service.jobs.request import JobRequest
from auctune.service.zones.open_zone import OpenZone


class ZonePausedError(AuctuneError):
    """An operator has the zone take no bids for now."""


class OfferedZones:
    """Zones that are open.

    Args:
        zones: by name; the first of a base is its default.

    Attributes:
        paused: names of zones that take no bids for now.
    """

    def __init__(self, zones: Mapping[str, OpenZone]) -> None:
        self.paused: set[str] = set()
        self._zones = zones

    def __iter__(self) -> Iterator[OpenZone]:
        return iter(self._zones.values())

    def __len__(self) -> int:
        return len(self._zones)

    def meant(self, request: JobRequest) -> OpenZone:
        """The zone that a request means.

        Raises:
            InputError: if there is none of this name, or it has another base.
        """
        name = request.market.zone
        if name is None:
            fitting = [zone for zone in self if zone.base == request.model]
            zone = fitting[0] if fitting else None
        else:
            zone = self._zones.get(name)
            if zone is None:
                known = ", ".join(self._zones)
                raise InputError("market.zone", f"{name!r} is unknown", f"one of {known}")
        if zone is None or zone.base != request.model:
            bases = ", ".join(dict.fromkeys(z.base for z in self))
            raise InputError("model", f"{request.model!r} is not offered", f"one of {bases}")
        return zone

    def named(self, name: str) -> OpenZone:
        """The zone of this name, which is there."""
        return self._zones[name]

    def check_open(self, zone: OpenZone) -> None:
        """That a zone takes bids.

        Raises:
            ZonePausedError: if it does not.
        """
        if zone.name in self.paused:
            raise ZonePausedError(f"zone {zone.name} takes no bids now")
