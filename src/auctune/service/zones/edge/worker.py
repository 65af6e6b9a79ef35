"""Background worker of an edge zone: sites, archives, snapshots."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import structlog

from auctune.run.child import Hear, Message
from auctune.run.data.client import DataClient
from auctune.run.open_sites.folder import OpenSitesFolder
from auctune.run.open_sites.messages import SitesSettings
from auctune.run.open_sites.process import SitesProcess
from auctune.service.files.repository import FileRepository
from auctune.service.storage import Committer, Snapshots
from auctune.service.tasks import TaskSet
from auctune.service.zones.core.job import Phase
from auctune.service.zones.core.snapshots import Snapshotter
from auctune.service.zones.core.supervisor import ProcessSupervisor
from auctune.service.zones.core.worker import (
    BackgroundJobs,
    ResultArchiver,
    WorkdirCleaner,
    run_every_slot,
)
from auctune.service.zones.edge.gateway import EdgeGateway
from auctune.service.zones.edge.job import EdgeJobState
from auctune.service.zones.edge.scheduler import SlotScheduler
from auctune.service.zones.edge.zone import EdgeZone


class EdgeSaver:
    """Of one zone."""

    def seq(self, zone: EdgeZone) -> int:
        """Of the newest event that the memory knows."""
        return zone.state.seq

    def prepare(self, zone: EdgeZone) -> bool:
        """Nothing: who trains at the same sites is not many."""
        return True

    def save(self, zone: EdgeZone) -> dict[str, Any]:
        """All that the zone remembers."""
        return zone.memory.save()


# The worker.
#
# The actor decides; the worker tells the sites' process what to train, and the actor what it says.

_log = structlog.get_logger(__name__)

_LOOK_SECONDS = 0.5
# Nodes take some seconds to start; what is sold before they are there would pass untrained.
_START_SECONDS = 90.0


class EdgeWorker:
    """Of one zone.

    Args:
        zone: whose.
        settings: of the sites' process.
        logs: folder of the process's log.
        library: files.
        data: the data process.
        snapshots: makes snapshots.
        committer: writes them.
        lock: descriptor of the lock that the process holds too; none: there is none.
        alarm: told if the zone cannot go on.
    """

    def __init__(
        self,
        zone: EdgeGateway,
        settings: SitesSettings,
        logs: Path,
        library: FileRepository,
        data: DataClient,
        snapshots: Snapshots,
        committer: Committer,
        lock: int | None,
        alarm: Callable[[Exception], None],
    ) -> None:
        self._zone, self._settings, self._logs = zone, settings, logs
        self._packer = ResultArchiver(zone.actor, data, library)
        self._lock, self._alarm = lock, alarm
        self._place = OpenSitesFolder.at(Path(settings.folder))
        self._background = TaskSet()
        self._background_jobs = BackgroundJobs(zone.abandon)
        self._keeper = Snapshotter(zone.actor, zone.clock, EdgeSaver(), snapshots, committer)
        self._scheduler = SlotScheduler(library.blobs.path, self._place.kept)
        self._leftovers = WorkdirCleaner(
            self._place.jobs,
            zone.actor,
            self._scheduler.is_running,
            self._background_jobs.busy,
            library.has_job,
            library.trash,
        )
        self._sites = ProcessSupervisor(zone.name, self._launch, self._on_message, _has_trained)
        self._process: SitesProcess | None = None

    async def start(self) -> None:
        """Start the sites, and take up what was under way."""
        self._ready = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._place.jobs.mkdir(parents=True, exist_ok=True)
        self._logs.mkdir(parents=True, exist_ok=True)
        await self._zone.decide_pending()
        beating = run_every_slot(self._zone.clock, self._tick, _LOOK_SECONDS, self._alarm)
        self._background.spawn(beating)
        try:
            await asyncio.wait_for(self._ready.wait(), _START_SECONDS)
        except TimeoutError:
            _log.warning("the sites are not there yet", zone=self._zone.name)

    async def stop(self) -> None:
        """Stop the sites; what they trained is in checkpoints."""
        await self._background.close()
        await self._background_jobs.close()
        await asyncio.to_thread(self._sites.stop)

    async def _tick(self) -> None:
        await asyncio.to_thread(self._sites.poll)
        if self._sites.is_crash_looping:
            await self._zone.call(self._scheduler.mark_all_lost)
        await self._zone.call(self._scheduler.run_slot)
        for job in await self._zone.call(_trained):
            self._background_jobs.start_once(job.id, self._finish(job.id, job.owner))
        await self._leftovers.clean()
        await self._keeper.snapshot_if_due()

    def _launch(self, hear: Hear) -> SitesProcess:
        log = self._logs / f"{self._zone.name}.log"

        def told(message: Message | None) -> None:
            if message is None:
                self._zone.actor.submit(lambda _: self._scheduler.on_process_exit())
            hear(message)

        self._process = SitesProcess(self._settings, told, lock=self._lock, log=log)
        return self._process

    def _on_message(self, message: Message) -> None:
        """On a thread of the process's."""
        kind, process = message["kind"], self._process
        if kind == "failed":
            _log.error("the sites failed", zone=self._zone.name, why=message["found"])
        if kind == "ready":
            self._loop.call_soon_threadsafe(self._ready.set)
        if kind in ("alive", "failed") or process is None:
            return
        self._zone.actor.post(
            lambda zone: self._scheduler.on_message(zone, process, message), self._alarm
        )

    async def _finish(self, job: str, owner: str) -> None:
        source, target = self._place.model(job), self._place.jobs / f"{job}.zip"
        await self._packer.archive(
            job, owner, source, target, lambda zone, file: zone.finish(job, file)
        )


def _trained(zone: EdgeZone) -> list[EdgeJobState]:
    return [job for job in zone.state.jobs.values() if job.phase is Phase.TRAINED]


def _has_trained(message: Message) -> bool:
    return bool(message["kind"] == "trained")
