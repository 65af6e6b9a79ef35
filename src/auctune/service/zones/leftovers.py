"""What jobs that are over left in a zone's folder: checkpoints, and files that nobody took.

Their owners have adapters as files, and losses and checkpoints as events of the log; nothing reads
the folder of a job that is over.
"""

import asyncio
import re
import shutil
from collections.abc import Callable, Collection
from pathlib import Path

import structlog

from auctune.service.files.blobs import Trash
from auctune.service.zones.desk import Desk
from auctune.service.zones.zone import Zone, is_open

_log = structlog.get_logger(__name__)

_JOB = re.compile(r"(ftjob-[A-Za-z0-9]+)(\..*)?")


class Leftovers:
    """Of one zone.

    Args:
        work: its folder.
        desk: knows which jobs are open.
        is_given: whether something that runs jobs may be at one, which may be over by now.
        busy: jobs that something else is at.
        is_recorded: whether the database knows a job; may block.
        trash: takes what belongs to jobs that it does not know.
    """

    def __init__(
        self,
        work: Path,
        desk: Desk[Zone],
        is_given: Callable[[str], bool],
        busy: Collection[str],
        is_recorded: Callable[[str], bool],
        trash: Trash,
    ) -> None:
        self._work = work
        self._desk = desk
        self._is_given = is_given
        self._busy = busy
        self._is_recorded = is_recorded
        self._trash = trash

    async def clean(self) -> None:
        """Remove what belongs to jobs that are over, and that nobody is at."""
        there = await asyncio.to_thread(_found, self._work)
        if not there:
            return

        def unneeded(zone: Zone) -> list[str]:
            return [job for job in there if not self._is_needed(zone, job)]

        gone = await self._desk.call(unneeded)
        # What is begun for a job is begun before it is over.
        unneeded_paths = {job: there[job] for job in gone if job not in self._busy}
        await asyncio.to_thread(self._clear, unneeded_paths)

    def _clear(self, unneeded: dict[str, list[Path]]) -> None:
        for job, paths in unneeded.items():
            if self._is_recorded(job):
                _remove(paths)
            else:
                for path in paths:
                    self._trash.take(path)

    def _is_needed(self, zone: Zone, job: str) -> bool:
        return is_open(zone, job) or self._is_given(job)


def _found(folder: Path) -> dict[str, list[Path]]:
    """What lies in a folder, by job."""
    found: dict[str, list[Path]] = {}
    for path in folder.iterdir():
        if (name := _JOB.fullmatch(path.name)) is not None:
            found.setdefault(name[1], []).append(path)
    return found


def _remove(paths: list[Path]) -> None:
    for path in paths:
        try:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        except OSError as error:
            # It is tried again at the next tick; training goes on meanwhile.
            _log.warning("what a job left stays", path=path.name, reason=str(error))
