"""Settings that zones of all kinds have in common, and the cores of this machine that they share.

A zone has the cores that its settings state; what is left is divided by the number of workers. A
worker with less than a core for each of its threads is sold as so much slower. The scheduler of
the operating system enforces the shares: it divides the cores equally between busy threads, and
those that are sold less run at a higher niceness. Answers run at the highest, and take next to
nothing of what is sold.
"""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field, PrivateAttr

from auctune.domain import InputError
from auctune.domain.base_name import DTYPE_WORDS, BaseDtype, resolve_base
from auctune.domain.dataset import DEFAULT_MAX_LENGTH
from auctune.files.schema import STRICT, CheckpointInterval
from auctune.service.config.fields import Count, Name, Positive, settings_folder

AUCTION = "auction"
SPOT = "spot"
TIMESHARE = "timeshare"
EDGE = "edge"


@dataclass(frozen=True, slots=True)
class DeviceRequirement:
    """Nodes of one type that a zone has on this machine.

    Attributes:
        place: of the node type in the settings of the zone; empty: the zone itself.
        device: `cpu`, `cuda` or `cuda:N`.
        profile: path of the device's profile, or None to measure it.
        num_nodes: number of nodes of this type.
        num_devices: of each node, `device` the first.
        gradient_checkpointing: as the trainer has it.
    """

    place: str
    device: str
    profile: str | None
    num_nodes: int
    num_devices: int = 1
    gradient_checkpointing: int = 0

    @property
    def num_processes(self) -> int:
        """Processes of all nodes of this type, one for each device of a node."""
        return self.num_nodes * self.num_devices


@dataclass(frozen=True, slots=True)
class ZoneRequirements:
    """Requirements of a zone beyond its base: devices here, and vendors' URLs by name."""

    devices: tuple[DeviceRequirement, ...] = ()
    vendors: Mapping[str, str] = field(default_factory=dict)


class ZoneConfig(BaseModel):
    """[[zones]]: the keys of every kind."""

    model_config = STRICT

    kind: str
    name: Name = Field(
        default="default",
        description="name of the zone; requests and commands refer to it by this name",
    )
    base: str
    slot_seconds: Positive = Field(
        default=60.0,
        description="length of a slot in seconds. It should be long compared with the time to load "
        "an adapter: seconds for the tiny base, minutes for a real one. Fixed once the zone has "
        "been opened",
    )

    @property
    def required_base(self) -> str | None:
        """Base that the zone requires, to be built or fetched if missing, or None."""
        return None

    @property
    def base_folder(self) -> Path:
        """Folder that a relative path of a base starts from: that of the settings file."""
        return Path()

    def requirements(self) -> ZoneRequirements:
        return ZoneRequirements()

    @property
    def num_cpu_workers(self) -> int:
        """Workers that train at once on the CPU of this machine."""
        needs = self.requirements().devices
        return sum(need.num_processes for need in needs if need.device == "cpu")

    def files(self) -> Mapping[str, str]:
        """Return the paths of the files that the zone names, by key; secrets are not included."""
        return {}


class LanguageZoneConfig(ZoneConfig):
    """[[zones]]: the keys of the kinds that train adapters of a language model."""

    base: str = Field(
        default="tiny",
        description="base model: `tiny` (a toy model that is built on this machine), the path of a "
        "folder in the format of transformers, or a model on the hub, `hub:NAME` or `ORG/NAME`. A "
        "folder that does not exist is an error. Requests name the model as it is written here. "
        "Fixed once the zone has been opened",
    )
    dtype: BaseDtype = Field(
        default="float32", description=f"number type of the base's weights: {DTYPE_WORDS}"
    )
    threads: Annotated[int, Field(ge=1, le=1024)] | None = Field(
        default=None,
        description="threads of a worker on a CPU. Default: the cores of a worker, rounded down; 1 "
        "on a cluster with an `address` and in zones of the kinds `timeshare` and `edge`",
    )
    cores: Positive | None = Field(
        default=None,
        description="cores of this machine for all workers of the zone together. Default: "
        "[its part](../explanation/service.md#zones-that-share-a-machine) of those that no zone "
        "states, by its number of workers: its nodes, each times its `devices`; `max_jobs` x "
        "`n_max`; the pool; or as many workers as the sites hold. A worker that has less than a "
        "core for each thread is sold as so much slower",
    )
    max_length: Count = Field(
        default=DEFAULT_MAX_LENGTH,
        description="longest row in tokens, where a request does not set it",
    )
    gradient_checkpointing: CheckpointInterval = Field(
        default=0,
        description="n: compute the activations of every n-th layer again in the backward pass "
        "instead of keeping them, 1 or `true` those of every layer, 0 or `false` of none: the "
        "smaller n, the less memory; 1 makes passes about a third longer",
    )

    _folder: Path = PrivateAttr(default_factory=Path)
    _worker_cores: float | None = PrivateAttr(default=None)
    _niceness: int = PrivateAttr(default=0)

    def model_post_init(self, context: Any) -> None:
        self._folder = settings_folder(context)

    @property
    def base_folder(self) -> Path:
        return self._folder

    def set_worker_cores(self, cores: float) -> None:
        """Set the cores that each worker on the CPU of this machine has."""
        self._worker_cores = cores

    def set_niceness(self, niceness: int) -> None:
        """Set the niceness of the workers, by which the operating system divides the cores."""
        self._niceness = niceness

    @property
    def worker_cores(self) -> float:
        """Cores of each worker; without other zones all cores are divided between the workers."""
        if self._worker_cores is not None:
            return self._worker_cores
        num_processes = sum(need.num_processes for need in self.requirements().devices)
        return len(os.sched_getaffinity(0)) / max(1, self.num_cpu_workers, num_processes)

    @property
    def uses_external_cluster(self) -> bool:
        """Return whether workers run on a cluster that the service does not start itself."""
        return False

    @property
    def worker_threads(self) -> int:
        # The number of cores of other machines is unknown here.
        cores = 1 if self.uses_external_cluster else int(self.worker_cores)
        return self.threads or max(1, cores)

    @property
    def worker_share(self) -> float:
        """Speed of a worker beside all others, relative to that of a worker alone."""
        threads = min(self.worker_threads, len(os.sched_getaffinity(0)))
        return min(1.0, self.worker_cores / threads) if self.num_cpu_workers else 1.0

    @property
    def niceness(self) -> int:
        return self._niceness

    @property
    def base_source(self) -> str:
        """Resolved base, as processes load it; requests name `base` as it was written."""
        return resolve_base(self.base, self._folder)

    @property
    def required_base(self) -> str | None:
        return self.base


_CPU_MAX = Path("/sys/fs/cgroup/cpu.max")
# Weight of a busy thread by its niceness, as of Linux: 1.25 for each step.
_WEIGHT_STEP = 1.25
_MAX_NICENESS = 19
_SLACK = 1e-9
# Below this share of the measured speed an operator should know.
_NEARLY_ALL = 0.95


def usable_cores() -> float:
    """Return the cores that this process may use: its CPU affinity, or its container's limit."""
    cores = float(len(os.sched_getaffinity(0)))
    try:
        limit, period = _CPU_MAX.read_text().split()
    except (OSError, ValueError):
        return cores
    return cores if limit == "max" else min(cores, int(limit) / int(period))


def divide_cores(zones: Sequence[ZoneConfig], total: float | None = None) -> None:
    """Set the cores and the niceness of the workers of all zones.

    Args:
        zones: of one service.
        total: cores to divide; None: those that this process may use.

    Raises:
        InputError: if zones state more cores than there are, or leave none to others.
    """
    total = usable_cores() if total is None else total
    here = {
        index: zone
        for index, zone in enumerate(zones)
        if isinstance(zone, LanguageZoneConfig) and zone.num_cpu_workers
    }
    for index, zone in enumerate(zones):
        if index not in here and getattr(zone, "cores", None) is not None:
            found = "is given, and no worker of the zone is on a CPU of this machine"
            raise InputError(f"zones[{index}].cores", found, "zones with such workers only")
    stated = {zone.name: zone.cores for zone in here.values() if zone.cores is not None}
    num_workers = sum(zone.num_cpu_workers for zone in here.values() if zone.cores is None)
    left = total - sum(stated.values())
    if left < -_SLACK or (num_workers and left < _SLACK):
        shares = ", ".join(f"{name} {cores:g}" for name, cores in stated.items())
        found = f"have {sum(stated.values()):g} of the {total:.3g} cores of this machine ({shares})"
        expected = f"at most {total:.3g} in sum, less if zones without `cores` are to have the rest"
        raise InputError("zones: cores", found, expected)
    for zone in here.values():
        cores = zone.cores or left * zone.num_cpu_workers / num_workers
        zone.set_worker_cores(cores / zone.num_cpu_workers)
    most = max((zone.worker_share for zone in here.values()), default=1.0)
    for zone in here.values():
        steps = math.log(most / zone.worker_share, _WEIGHT_STEP)
        zone.set_niceness(min(round(steps), _MAX_NICENESS))


def core_warnings(zones: Sequence[ZoneConfig]) -> list[str]:
    """Return what an operator should know about the cores that `divide_cores` has set."""
    return [
        f"{zone.num_cpu_workers} workers of zone {zone.name} have {zone.worker_cores:.2f} cores "
        f"each for {zone.worker_threads} threads: {zone.worker_share:.0%} of the measured speed "
        "is sold"
        for zone in zones
        if isinstance(zone, LanguageZoneConfig)
        and zone.num_cpu_workers
        and zone.worker_share < _NEARLY_ALL
    ]
