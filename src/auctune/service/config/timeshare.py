"""Settings of a zone of kind `timeshare`: its pool, and the price of a second."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Literal

from pydantic import Field

from auctune.service.config.fields import Amount, Positive, RelativePath
from auctune.service.config.zone import DeviceRequirement, LanguageZoneConfig, ZoneRequirements
from auctune.timeshare.named import DEFAULT_ALLOCATOR, AllocatorName


class TimeshareConfig(LanguageZoneConfig):
    """[[zones]] of kind `timeshare`."""

    kind: Literal["timeshare"] = "timeshare"
    price_per_second: Amount = Field(
        default=Decimal("0.0010"),
        description="money for a second in which the pool trains a job; fixed once the zone has "
        "been opened",
    )
    allocator: AllocatorName = Field(
        default=DEFAULT_ALLOCATOR,
        description="how jobs share the pool: `rollout` (of three orders the one that does most "
        "jobs on drawn needs), `lara`, `lrf`, `etf`, `ucb`, `thompson`, `laira`, `uniform`, `stf`, "
        "`round_robin` or `halving`, see [Time sharing](../explanation/timeshare.md)",
    )
    memory_gb: Positive | None = Field(
        default=None,
        description="memory of the device for all adapters together, without the base, in GB. "
        "Adapters that do not fit wait on the host. Default: all of the device's memory",
    )
    device: str = Field(default="cpu", description="`cpu`, `cuda` or `cuda:N`")
    profile: RelativePath | None = Field(
        default=None,
        description="a file of [`auctune profile`](command-line.md#auctune-profile). Default: the "
        "device is measured at the first start",
    )

    @property
    def worker_threads(self) -> int:
        return self.threads or 1

    def requirements(self) -> ZoneRequirements:
        return ZoneRequirements(
            (
                DeviceRequirement(
                    "",
                    self.device,
                    self.profile,
                    1,
                    gradient_checkpointing=self.gradient_checkpointing,
                ),
            )
        )

    def files(self) -> Mapping[str, str]:
        return {} if self.profile is None else {"profile": self.profile}
