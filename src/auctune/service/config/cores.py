"""Cores of this machine, shared by the workers of all zones that train on a CPU.

A zone has the cores that its settings state; what is left is divided by the number of workers. A
worker with less than a core for each of its threads is sold as so much slower. The scheduler of
the operating system enforces the shares: it divides the cores equally between busy threads, and
those that are sold less run at a higher niceness. Answers run at the highest, and take next to
nothing of what is sold.
"""

import math
import os
from collections.abc import Sequence
from pathlib import Path

from auctune.domain import InputError
from auctune.service.config.zone import LanguageZoneConfig, ZoneConfig

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
