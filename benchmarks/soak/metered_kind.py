"""What zones that meter have in common in a soak: they sell nothing ahead."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from auctune.service.storage.events import ZoneEvent
from auctune.service.zones.core.state import ZoneModel
from soak.audit.metered import check_metered
from soak.data_sets import CLEAN, clean_rows
from soak.log import Story


class MeteredKind:
    """One zone; its kind makes it a `SoakKind`."""

    replays = True
    data_sets = MappingProxyType({CLEAN: clean_rows})

    def watch(self, memory: ZoneModel[Any, Any], event: ZoneEvent) -> Iterator[str]:
        """Nothing is sold ahead."""
        yield from ()

    def planned(self, decided: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Nothing is sold ahead."""
        return []

    def prices(self, memory: ZoneModel[Any, Any]) -> Mapping[str, Any]:
        """It has no table of cells."""
        return {}

    def check(self, story: Story) -> Iterator[str]:
        """A cap that was set aside, and slots or units that were charged."""
        return check_metered(story)
