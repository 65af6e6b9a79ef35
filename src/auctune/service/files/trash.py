"""Where the service moves what its database does not know, instead of deleting it.

A database that was restored from an old backup does not know what is newer. An operator finds it
here, under the day on which it was moved, until the retention is over.
"""

import shutil
import time
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import structlog

_log = structlog.get_logger(__name__)

RETENTION = timedelta(days=30)


class Trash:
    """A folder with a folder for each day.

    Args:
        folder: made when something is moved to it.
        now: returns unix time.
    """

    def __init__(self, folder: Path, now: Callable[[], float] = time.time) -> None:
        self.folder = folder
        self._now = now

    def take(self, path: Path) -> None:
        """Move a file or folder here; it stays where it is if that fails."""
        day = self.folder / self._today().isoformat()
        try:
            day.mkdir(parents=True, exist_ok=True)
            target = day / path.name
            number = 1
            while target.exists():
                number += 1
                target = day / f"{path.name}.{number}"
            path.rename(target)
        except OSError as error:
            _log.warning("what the database does not know stays", path=str(path), reason=str(error))
        else:
            _log.warning("moved what the database does not know", path=str(path), to=str(target))

    def purge(self) -> None:
        """Delete the days whose retention is over."""
        if not self.folder.is_dir():
            return
        for day in self.folder.iterdir():
            try:
                is_over = date.fromisoformat(day.name) + RETENTION < self._today()
            except ValueError:
                continue
            if is_over:
                shutil.rmtree(day, ignore_errors=True)

    def _today(self) -> date:
        return datetime.fromtimestamp(self._now(), UTC).date()
