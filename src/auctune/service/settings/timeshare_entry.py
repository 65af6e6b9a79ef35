"""A zone of kind `timeshare` in auctune.toml: its pool, and what a second of it costs."""

from decimal import Decimal
from typing import Annotated, Literal

from pydantic import Field

from auctune.run.open_pool.messages import AllocatorName
from auctune.service.settings.fields import Amount, Positive
from auctune.service.settings.zone_entry import ZoneEntry


class TimeshareEntry(ZoneEntry):
    """[[zones]] of kind `timeshare`."""

    kind: Literal["timeshare"] = "timeshare"
    price_per_second: Amount = Decimal("0.0010")
    allocator: AllocatorName = "headway"
    memory_gb: Positive | None = None
    device: str = "cpu"
    slots: Annotated[int, Field(ge=2, le=1_000_000)] = 10_080
