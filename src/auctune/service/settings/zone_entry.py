"""A zone in auctune.toml: what zones of all kinds say of themselves."""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, Field

from auctune.schema import STRICT
from auctune.service.settings.fields import Count, Name, Positive
from auctune.service.settings.zone_needs import ZoneNeeds

AUCTION = "auction"
SPOT = "spot"
TIMESHARE = "timeshare"


class ZoneEntry(BaseModel):
    """[[zones]]: the keys of every kind."""

    model_config = STRICT

    kind: str
    name: Name = "default"
    base: str = "tiny"
    slot_seconds: Positive = 60.0
    dtype: Literal["float32", "bfloat16"] = "float32"
    threads: Annotated[int, Field(ge=1, le=1024)] | None = None
    max_length: Count = 512

    def needs(self) -> ZoneNeeds:
        """What it needs of this machine; kinds whose nodes are elsewhere need nothing."""
        return ZoneNeeds()

    def beside(self, folder: Path) -> Self:
        """The same with paths that start from a folder."""
        return self
