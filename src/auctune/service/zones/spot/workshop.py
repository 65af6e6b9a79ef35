"""Everything of a rented zone that takes time: its clock, its jobs' processes, its snapshots.

Each job under way has a process that rents and trains by itself, with a folder of its own; it is
started again for as long as the job is not over, and stopped while it is paused.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import structlog

from auctune.run.data.client import DataClient
from auctune.run.rental.order import adapter_in
from auctune.service.config.spot import SpotConfig
from auctune.service.files.repository import FileRepository
from auctune.service.storage import Committer, Snapshots
from auctune.service.tasks import TaskSet
from auctune.service.zones.chores import Chores
from auctune.service.zones.heartbeat import beat
from auctune.service.zones.keeping import Keeper
from auctune.service.zones.leftovers import Leftovers
from auctune.service.zones.packing import Packer
from auctune.service.zones.phase import Phase
from auctune.service.zones.spot.hearing import hear
from auctune.service.zones.spot.memory import SpotSaver
from auctune.service.zones.spot.open_spot import OpenSpot
from auctune.service.zones.spot.processes import JobProcesses
from auctune.service.zones.spot.rented_job import RentedJob
from auctune.service.zones.spot.zone import SpotZone

_log = structlog.get_logger(__name__)

_DONE = "exit code 0"
# A job whose process ends so often without a slot more on record will not do better.
_DEATHS = 8
_LOOK_SECONDS = 0.5


class SpotWorkshop:
    """Of one zone.

    Args:
        zone: whose.
        entry: its settings.
        cache: folder of bases that are built on this machine.
        work: folder of the jobs' runs.
        logs: folder of the processes' logs.
        library: files.
        data: the data process.
        snapshots: makes them.
        committer: writes them.
        lock: descriptor of the lock that jobs' processes hold too.
        alarm: told if the zone cannot go on.
    """

    def __init__(
        self,
        zone: OpenSpot,
        entry: SpotConfig,
        cache: Path,
        work: Path,
        logs: Path,
        library: FileRepository,
        data: DataClient,
        snapshots: Snapshots,
        committer: Committer,
        lock: int | None,
        alarm: Callable[[Exception], None],
    ) -> None:
        self._zone = zone
        self._work = work
        self._packer = Packer(zone.desk, data, library)
        self._alarm = alarm
        self._deaths: Counter[str] = Counter()
        self._background = TaskSet()
        self._chores = Chores(zone.abandon)
        self._keeper = Keeper(zone.desk, zone.clock, SpotSaver(), snapshots, committer)
        self._processes = JobProcesses(
            entry, zone.rental, cache, work, logs, library.blobs.path, lock, self._on_message
        )
        self._leftovers = Leftovers(
            work,
            zone.desk,
            self._processes.is_running,
            self._chores.busy,
            library.has_job,
            library.trash,
        )

    async def start(self) -> None:
        """Take up what was under way."""
        self._loop = asyncio.get_running_loop()
        self._work.mkdir(parents=True, exist_ok=True)
        await self._zone.decide_pending()
        beating = beat(self._zone.clock, self._tick, _LOOK_SECONDS, self._alarm)
        self._background.spawn(beating)

    async def stop(self) -> None:
        """Stop the jobs' processes; what they trained is in their checkpoints."""
        await self._background.close()
        await self._chores.close()
        await asyncio.to_thread(self._processes.close)

    async def _tick(self) -> None:
        jobs = await self._zone.call(_under_way)
        await asyncio.to_thread(self._processes.reconcile, jobs)
        for job in await self._zone.call(_trained):
            self._chores.start_once(job.id, self._finish(job.id, job.owner))
        await self._leftovers.clean()
        await self._keeper.snapshot_if_due()

    def _on_message(self, job: str, message: dict[str, Any] | None) -> None:
        """On a thread of the job's process."""
        if message is None:
            self._loop.call_soon_threadsafe(self._ended, job)
            return
        if message["kind"] in ("alive", "stopped"):
            return
        if message["kind"] in ("slot", "slot_done", "held"):
            self._deaths.pop(job, None)

        def take(zone: SpotZone) -> None:
            hear(zone, job, message)

        heard = self._zone.desk.submit(take)
        heard.add_done_callback(lambda done: self._check_heard(done.exception()))

    def _check_heard(self, error: BaseException | None) -> None:
        if error is not None and self._zone.desk.failure is None:
            self._alarm(error if isinstance(error, Exception) else RuntimeError(str(error)))

    def _ended(self, job: str) -> None:
        """A process has ended: by itself, as it was told to, or otherwise."""
        how = self._processes.reap(job)
        if how is None:
            return
        self._deaths[job] += 1
        # One that has done its work ends so too.
        say = _log.info if how == _DONE else _log.warning
        say("a job's process has ended", job=job, how=how)
        if self._deaths[job] >= _DEATHS:
            del self._deaths[job]
            self._background.spawn(
                self._zone.abandon(job, f"its process ended again and again ({how})")
            )

    async def _finish(self, job: str, owner: str) -> None:
        source, target = adapter_in(self._work / job), self._work / f"{job}.zip"
        await self._packer.archive(
            job, owner, source, target, lambda zone, file: zone.finish(job, file)
        )


def _under_way(zone: SpotZone) -> list[RentedJob]:
    """Jobs that are to have a process."""
    zone.begin_slots()
    still = (Phase.PLANNED, Phase.TRAINING)
    return [job for job in zone.state.jobs.values() if job.phase in still]


def _trained(zone: SpotZone) -> list[RentedJob]:
    return [job for job in zone.state.jobs.values() if job.phase is Phase.TRAINED]
