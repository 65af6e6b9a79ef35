"""Background work of a zone: its ticker, archiving results, cleaning work folders."""

import asyncio
import errno
import re
import shutil
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Coroutine
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import structlog

from auctune.domain import AuctuneError, InputError
from auctune.run.data.client import DataClient
from auctune.service.files.blobs import Trash
from auctune.service.files.repository import FileRepository
from auctune.service.tasks import TaskSet
from auctune.service.zones.core.actor import ZoneActor
from auctune.service.zones.core.clock import SlotClock
from auctune.service.zones.core.zone import AnyZone, is_open


class ZoneWorker(Protocol):
    """Of one zone."""

    async def start(self) -> None:
        """Start what runs jobs, and take up what was under way."""
        ...

    async def stop(self) -> None:
        """Stop it; what was done so far is on record or on disk."""
        ...


# Background jobs of a worker: archiving, repairs.
#
# Work that fails is done again when it is begun again, as a disk that is full may have room by
# then; after some tries, or where it is of no use, the job is given up.

_log = structlog.get_logger(__name__)

_TRIES = 20


class BackgroundJobs:
    """Of one zone.

    Args:
        give_up: told a job whose work is no use, and why.

    Attributes:
        busy: jobs for which something is under way.
    """

    def __init__(self, give_up: Callable[[str, str], Awaitable[None]]) -> None:
        self.busy: set[str] = set()
        self._give_up = give_up
        self._failures: Counter[str] = Counter()
        self._background = TaskSet()

    def start_once(self, job: str, work: Coroutine[Any, Any, None]) -> None:
        """Begin work for a job, unless some is under way."""
        if job in self.busy:
            work.close()
            return
        self.busy.add(job)
        self._background.spawn(self._run(job, work))

    async def close(self) -> None:
        """End what is under way."""
        await self._background.close()

    async def _run(self, job: str, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
            del self._failures[job]
        except (AuctuneError, OSError) as error:
            await self._failed(job, error)
        finally:
            self.busy.discard(job)

    async def _failed(self, job: str, error: Exception) -> None:
        self._failures[job] += 1
        _log.error("work for a job failed", job=job, reason=str(error))
        if isinstance(error, InputError) or self._failures[job] >= _TRIES:
            del self._failures[job]
            await self._give_up(job, str(error))


# Archiving a job's results into a file of its owner.

Z = TypeVar("Z", bound=AnyZone)


class ResultArchiver(Generic[Z]):
    """Of one zone.

    Args:
        actor: of the zone.
        data: the data process, which packs.
        library: files.
    """

    def __init__(self, actor: ZoneActor[Z], data: DataClient, library: FileRepository) -> None:
        self._actor, self._data, self._library = actor, data, library

    async def archive(
        self, job: str, owner: str, source: Path, target: Path, end: Callable[[Z, str], bool]
    ) -> None:
        """Pack a folder, and end its job with that.

        Args:
            job: its id.
            owner: whose file it is to be.
            source: the folder.
            target: of the archive, until it is among the files.
            end: run on the zone with the file's id; whether the job was still there.
        """
        await asyncio.wrap_future(self._data.archive(source, target, job, owner=owner))
        record = await self._library.import_result(owner, target.name, target)
        if not await self._actor.call(lambda zone: end(zone, record.id)):
            # It was cancelled meanwhile: nobody is to have it.
            await self._library.delete(record)


# Cleaning the work folder: checkpoints and files of ended jobs.
#
# Their owners have adapters as files, and losses and checkpoints as events of the log; nothing
# reads the folder of a job that is over.

_log = structlog.get_logger(__name__)

_JOB = re.compile(r"(ftjob-[A-Za-z0-9]+)(\..*)?")


class WorkdirCleaner:
    """Of one zone.

    Args:
        work: its folder.
        actor: knows which jobs are open.
        is_given: whether something that runs jobs may be at one, which may be over by now.
        busy: jobs that something else is at.
        is_recorded: whether the database knows a job; may block.
        trash: takes what belongs to jobs that it does not know.
    """

    def __init__(
        self,
        work: Path,
        actor: ZoneActor[AnyZone],
        is_given: Callable[[str], bool],
        busy: Collection[str],
        is_recorded: Callable[[str], bool],
        trash: Trash,
    ) -> None:
        self._work = work
        self._actor = actor
        self._is_given = is_given
        self._busy = busy
        self._is_recorded = is_recorded
        self._trash = trash

    async def clean(self) -> None:
        """Remove what belongs to jobs that are over, and that nobody is at."""
        there = await asyncio.to_thread(_found, self._work)
        if not there:
            return

        def unneeded(zone: AnyZone) -> list[str]:
            return [job for job in there if not self._is_needed(zone, job)]

        gone = await self._actor.call(unneeded)
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

    def _is_needed(self, zone: AnyZone, job: str) -> bool:
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


# The ticker: runs a function at every slot's start and in between.

_LEAST_SECONDS = 0.01
_RETRY_SECONDS = 1.0
# Nothing is wrong with what the zone remembers, and clients go again.
_TRANSIENT = (errno.EMFILE, errno.ENFILE)

_log = structlog.get_logger(__name__)


async def run_every_slot(
    clock: SlotClock,
    do: Callable[[], Awaitable[None]],
    seconds: float,
    alarm: Callable[[Exception], None],
) -> None:
    """Do something for as long as the zone is open, also as soon as a slot begins.

    Args:
        clock: of the zone.
        do: what is to be done.
        seconds: the longest time between.
        alarm: called with what ends it: without its clock a zone would sell what nobody trains.
            That no more files can be opened does not end it.
    """
    try:
        while True:
            longest = seconds
            try:
                await do()
            except OSError as error:
                if error.errno not in _TRANSIENT:
                    raise
                _log.warning("too many open files", retry_seconds=_RETRY_SECONDS)
                longest = min(seconds, _RETRY_SECONDS)
            left = clock.slot_end(clock.slot()) - clock.now()
            await asyncio.sleep(max(_LEAST_SECONDS, min(left, longest)))
    except Exception as error:
        alarm(error)
