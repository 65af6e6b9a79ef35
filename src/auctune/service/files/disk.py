"""Room on the disk of the data folder, of which a reserve is kept for the log and for training."""

import errno
import shutil
from pathlib import Path

from auctune.domain import AuctuneError, InputError

_START_BYTES = 32 * 1024 * 1024
"""For the log and its snapshots; with less a service does not get far."""
FULL = (errno.ENOSPC, errno.EDQUOT)


class DiskFullError(AuctuneError):
    """The service's disk is full, or nearly so: what users send is not stored."""

    def __init__(self) -> None:
        super().__init__(
            "the service's disk is nearly full, and what is left is kept for jobs under way; "
            "its operator must make room. Nothing was stored"
        )


class Disk:
    """The disk of a data folder.

    Args:
        folder: on it, which is there.
        reserve: bytes that users' data leave free.
    """

    def __init__(self, folder: Path, reserve: int) -> None:
        self._folder = folder
        self._reserve = reserve

    def check(self, num_bytes: int = 0) -> None:
        """Check that there is room for users' data.

        Args:
            num_bytes: that are to come.

        Raises:
            DiskFullError: if they would reach into the reserve.
        """
        if shutil.disk_usage(self._folder).free - num_bytes < self._reserve:
            raise DiskFullError


def check_start(folder: Path) -> None:
    """Check that a service can start in a data folder.

    Raises:
        InputError: if its disk is full.
    """
    free = shutil.disk_usage(folder).free
    if free < _START_BYTES:
        raise full_disk(folder, f"has {free:,} bytes free on its disk")


def full_disk(folder: Path, found: str = "is on a disk that is full") -> InputError:
    """Return the error for a data folder without room."""
    return InputError(
        str(folder),
        found,
        f"{_START_BYTES:,} bytes at least: make room on that disk, or move the folder to a larger "
        "one (--data). Nothing that was acknowledged is lost",
    )
