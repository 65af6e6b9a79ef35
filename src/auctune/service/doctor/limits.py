"""Limits of the system: open files, and memory that processes share."""

import resource
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from auctune.service.doctor.finding import Finding, ok, warn, wrong
from auctune.service.doctor.installation import Installation

# Each client that listens holds one; children, database and logs hold some dozens.
_FEW_FILES, _MANY_FILES = 256, 4096
_SHARED = Path("/dev/shm")
_SHARED_BYTES = 1 << 30


def look(at: Installation) -> Iterator[Finding]:
    """Open files of a process; shared memory where Ray is installed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield open_files(soft, hard)
    if find_spec("ray") is not None and _SHARED.is_dir():
        yield shared(shutil.disk_usage(_SHARED).total)


def open_files(soft: int, hard: int) -> Finding:
    """Whether a process may open enough files.

    Args:
        soft: that it may have open.
        hard: up to which it may raise that by itself.
    """
    if soft == resource.RLIM_INFINITY or soft >= _MANY_FILES:
        return ok("limits", f"{'any number of' if soft < 0 else f'{soft:,}'} open files")
    within = hard == resource.RLIM_INFINITY or hard >= _MANY_FILES
    raised = f"ulimit -n {_MANY_FILES if within else hard}"
    mend = raised if within else f"{raised}, and LimitNOFILE={_MANY_FILES} of the service's unit"
    said = f"{soft:,} open files, each client that listens is one"
    return wrong("limits", said, mend) if soft < _FEW_FILES else warn("limits", said, mend)


def shared(total: int) -> Finding:
    """Whether Ray's object store has room in shared memory of so many bytes."""
    said = f"{total / (1 << 30):.2f} GiB of shared memory"
    if total >= _SHARED_BYTES:
        return ok("limits", said)
    mend = "docker run --shm-size=2g, or mount -o remount,size=2G /dev/shm"
    return warn("limits", f"{said}: Ray would keep objects on disk", mend)
