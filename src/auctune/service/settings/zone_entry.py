"""A zone in auctune.toml: what zones of all kinds say of themselves."""

from collections.abc import Mapping
from pathlib import Path
from typing import Self

from pydantic import BaseModel

from auctune.schema import STRICT
from auctune.service.settings.fields import Name, Positive
from auctune.service.settings.zone_needs import ZoneNeeds

AUCTION = "auction"
SPOT = "spot"
TIMESHARE = "timeshare"
EDGE = "edge"


class ZoneEntry(BaseModel):
    """[[zones]]: the keys of every kind."""

    model_config = STRICT

    kind: str
    name: Name = "default"
    base: str
    slot_seconds: Positive = 60.0

    @property
    def needed_base(self) -> str | None:
        """A base that must be there, or be built or fetched; none: it needs none."""
        return None

    @property
    def base_folder(self) -> Path:
        """The folder that the path of a base starts from: that of the settings' file."""
        return Path()

    def needs(self) -> ZoneNeeds:
        """What it needs of this machine; kinds whose nodes are elsewhere need nothing."""
        return ZoneNeeds()

    def files(self) -> Mapping[str, str]:
        """Paths of the files that it names, by key; secrets are not among them."""
        return {}

    def beside(self, folder: Path) -> Self:
        """The same with paths that start from a folder."""
        return self
