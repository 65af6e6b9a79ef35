"""What zones say of themselves that train adapters of a language model."""

from typing import Annotated, Literal

from pydantic import Field

from auctune.service.settings.fields import Count
from auctune.service.settings.zone_entry import ZoneEntry


class LanguageZoneEntry(ZoneEntry):
    """[[zones]]: the keys of kinds that have such a base."""

    base: str = "tiny"
    dtype: Literal["float32", "bfloat16"] = "float32"
    threads: Annotated[int, Field(ge=1, le=1024)] | None = None
    max_length: Count = 512

    @property
    def needed_base(self) -> str | None:
        """The base itself."""
        return self.base
