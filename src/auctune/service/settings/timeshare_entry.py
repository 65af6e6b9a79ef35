"""A zone of kind `timeshare` in auctune.toml: its pool, and what a second of it costs."""

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field

from auctune.service.settings.fields import Amount, Positive
from auctune.service.settings.language_entry import LanguageZoneEntry
from auctune.service.settings.zone_needs import DeviceNeed, ZoneNeeds
from auctune.timeshare.named import DEFAULT_ALLOCATOR, AllocatorName


class TimeshareEntry(LanguageZoneEntry):
    """[[zones]] of kind `timeshare`."""

    kind: Literal["timeshare"] = "timeshare"
    price_per_second: Amount = Decimal("0.0010")
    allocator: AllocatorName = DEFAULT_ALLOCATOR
    memory_gb: Positive | None = None
    device: str = "cpu"
    profile: str | None = None
    slots: Annotated[int, Field(ge=2, le=1_000_000)] = 10_080

    def needs(self) -> ZoneNeeds:
        """The pool's device."""
        return ZoneNeeds((DeviceNeed("", self.device, self.profile, 1),))

    def files(self) -> Mapping[str, str]:
        """The pool's profile."""
        return {} if self.profile is None else {"profile": self.profile}

    def beside(self, folder: Path) -> Self:
        """The same with paths that start from a folder."""
        paths = {name: str(folder / path) for name, path in self.files().items()}
        return super().beside(folder).model_copy(update=paths)
