"""Which zones a request may be for, and whether they take bids now."""

from collections.abc import Iterator, Mapping, Sequence

from auctune.domain import AuctuneError, InputError
from auctune.service.jobs.request import JobRequest
from auctune.service.zones.open_zone import OpenZone


class ZonePausedError(AuctuneError):
    """An operator has the zone take no bids for now."""


class OfferedZones:
    """Zones that are open.

    Args:
        zones: by name, in the order of the settings.

    Attributes:
        paused: names of zones that take no bids for now.
    """

    def __init__(self, zones: Mapping[str, OpenZone]) -> None:
        self.paused: set[str] = set()
        self._zones = zones
        self._of_base: dict[str, list[OpenZone]] = {}
        for zone in zones.values():
            self._of_base.setdefault(zone.base, []).append(zone)

    def __iter__(self) -> Iterator[OpenZone]:
        return iter(self._zones.values())

    def __len__(self) -> int:
        return len(self._zones)

    def candidates(self, request: JobRequest) -> Sequence[OpenZone]:
        """The zones that a request may mean: the one that it names, or all that have its model.

        Raises:
            InputError: if there is none of this name, or it has another base.
        """
        name = request.market.zone
        if name is None:
            found = self._of_base.get(request.model, [])
        else:
            zone = self._zones.get(name)
            if zone is None:
                known = ", ".join(self._zones)
                raise InputError("market.zone", f"{name!r} is unknown", f"one of {known}")
            found = [zone] if zone.base == request.model else []
        if not found:
            bases = ", ".join(self._of_base)
            raise InputError("model", f"{request.model!r} is not offered", f"one of {bases}")
        return found

    def get(self, name: str) -> OpenZone:
        """The zone of this name, which is there."""
        return self._zones[name]

    def check_open(self, zone: OpenZone) -> None:
        """That a zone takes bids.

        Raises:
            ZonePausedError: if it does not.
        """
        if zone.name in self.paused:
            raise ZonePausedError(f"zone {zone.name} takes no bids now")
