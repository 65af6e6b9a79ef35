"""The data folder: whether it can be used, has room, and by whom it is held."""

import fcntl
import shutil
from collections.abc import Iterator
from pathlib import Path

from auctune.run.base_place import base_place
from auctune.run.lock import NODES_LOCK
from auctune.service.doctor.finding import Finding, ok, warn, wrong
from auctune.service.doctor.installation import Installation
from auctune.service.doctor.writing import nearest, why_not_written

_LEAST_BYTES = 200 << 20
"""For the log, snapshots and the tiny base: with less a service does not get far."""
_JOBS_A_DAY = 96
"""Of a node: four side by side, one after the other each hour."""
_ADAPTER_SHARE = 0.01
"""Of a base's bytes: LoRA of rank 16 on all modules of one of 7 billion parameters adds 0.6%."""


def look(at: Installation) -> Iterator[Finding]:
    """Whether it can be written, how full it is, and who is at work in it."""
    if at.data.exists() and not at.data.is_dir():
        yield wrong("data folder", f"{at.data} is no folder", "--data, a folder")
        return
    reason = why_not_written(at.data)
    if reason is not None:
        mend = f"chown or chmod {at.data}, or another --data"
        yield wrong("data folder", f"{at.data} cannot be written ({reason})", mend)
    elif not at.data.exists():
        yield ok("data folder", f"{at.data} is not there yet: made at the first start")
    else:
        yield ok("data folder", f"{at.data} can be written")
    yield room(shutil.disk_usage(nearest(at.data)).free, needed_bytes(at))
    if at.data.is_dir():
        yield _held(at)


def needed_bytes(at: Installation) -> int:
    """Room for the log and a day of adapters, as an estimate: see the constants above."""
    adapters = 0.0
    for zone in at.zones:
        num_nodes = sum(need.num_nodes for need in zone.needs().devices)
        if zone.needed_base is None:
            continue
        base = base_place(zone.needed_base, at.cache, zone.base_folder).num_bytes
        adapters += _JOBS_A_DAY * _ADAPTER_SHARE * base * num_nodes
    return _LEAST_BYTES + round(adapters)


def room(free: int, needed: int) -> Finding:
    """Whether a disk has room.

    Args:
        free: bytes on it.
        needed: bytes for a day.
    """
    said = f"{_gib(free)} free, {_gib(needed)} for a day of adapters"
    mend = "free some of it, or another disk: --data"
    if free < _LEAST_BYTES:
        return wrong("data folder", said, mend)
    return warn("data folder", said, mend) if free < needed else ok("data folder", said)


def _held(at: Installation) -> Finding:
    holder = lock_holder(at.data / NODES_LOCK)
    if holder is None:
        return ok("data folder", "no service is at work in it")
    if at.url_file.is_file():
        return ok("data folder", f"a service is at work in it: process {holder}")
    said = f"process {holder}, or a node that it left, holds it, and no service is open"
    mend = f"wait while it opens; if it does not: see process {holder}"
    return warn("data folder", said, mend)


def lock_holder(lock: Path) -> str | None:
    """The process that holds a folder's lock; none: nobody does.

    The lock is tried, shared, and let go at once: a service that starts just then tries again.
    """
    try:
        with lock.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return file.read().strip() or "unknown"
    except FileNotFoundError:
        return None
    return None


def _gib(count: int) -> str:
    return f"{count / (1 << 30):.1f} GiB"
