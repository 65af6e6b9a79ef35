"""Everything of an edge zone that takes time: its sites, packing, its snapshots.

The desk decides; the workshop tells the sites' process what to train, and the desk what it says.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path

import structlog

from auctune.run.child import Hear, Message
from auctune.run.data.client import DataClient
from auctune.run.open_sites.folder import OpenSitesFolder
from auctune.run.open_sites.messages import SitesSettings
from auctune.run.open_sites.process import SitesProcess
from auctune.service.files.repository import FileRepository
from auctune.service.storage import Committer, Snapshots
from auctune.service.tasks import TaskSet
from auctune.service.zones.chores import Chores
from auctune.service.zones.edge.foreman import Foreman
from auctune.service.zones.edge.open_edge import OpenEdge
from auctune.service.zones.edge.open_job import SiteJob
from auctune.service.zones.edge.saver import EdgeSaver
from auctune.service.zones.edge.zone import EdgeZone
from auctune.service.zones.heartbeat import beat
from auctune.service.zones.keeping import Keeper
from auctune.service.zones.leftovers import Leftovers
from auctune.service.zones.packing import Packer
from auctune.service.zones.phase import Phase
from auctune.service.zones.process_keeper import ProcessKeeper

_log = structlog.get_logger(__name__)

_LOOK_SECONDS = 0.5
# Nodes take some seconds to start; what is sold before they are there would pass untrained.
_START_SECONDS = 90.0


class EdgeWorkshop:
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
        zone: OpenEdge,
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
        self._packer = Packer(zone.desk, data, library)
        self._lock, self._alarm = lock, alarm
        self._place = OpenSitesFolder.at(Path(settings.folder))
        self._background = TaskSet()
        self._chores = Chores(zone.abandon)
        self._keeper = Keeper(zone.desk, zone.clock, EdgeSaver(), snapshots, committer)
        self._foreman = Foreman(library.blobs.path, self._place.kept)
        self._leftovers = Leftovers(
            self._place.jobs,
            zone.desk,
            self._foreman.is_running,
            self._chores.busy,
            library.has_job,
            library.trash,
        )
        self._sites = ProcessKeeper(zone.name, self._launch, self._on_message, _has_trained)
        self._process: SitesProcess | None = None

    async def start(self) -> None:
        """Start the sites, and take up what was under way."""
        self._ready = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._place.jobs.mkdir(parents=True, exist_ok=True)
        self._logs.mkdir(parents=True, exist_ok=True)
        await self._zone.decide_pending()
        beating = beat(self._zone.clock, self._tick, _LOOK_SECONDS, self._alarm)
        self._background.spawn(beating)
        try:
            await asyncio.wait_for(self._ready.wait(), _START_SECONDS)
        except TimeoutError:
            _log.warning("the sites are not there yet", zone=self._zone.name)

    async def stop(self) -> None:
        """Stop the sites; what they trained is in checkpoints."""
        await self._background.close()
        await self._chores.close()
        await asyncio.to_thread(self._sites.stop)

    async def _tick(self) -> None:
        await asyncio.to_thread(self._sites.poll)
        if self._sites.is_crash_looping:
            await self._zone.call(self._foreman.mark_all_lost)
        await self._zone.call(self._foreman.run_slot)
        for job in await self._zone.call(_trained):
            self._chores.start_once(job.id, self._finish(job.id, job.owner))
        await self._leftovers.clean()
        await self._keeper.snapshot_if_due()

    def _launch(self, hear: Hear) -> SitesProcess:
        log = self._logs / f"{self._zone.name}.log"

        def told(message: Message | None) -> None:
            if message is None:
                self._zone.desk.submit(lambda _: self._foreman.on_process_exit())
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
        self._zone.desk.post(
            lambda zone: self._foreman.on_message(zone, process, message), self._alarm
        )

    async def _finish(self, job: str, owner: str) -> None:
        source, target = self._place.model(job), self._place.jobs / f"{job}.zip"
        await self._packer.archive(
            job, owner, source, target, lambda zone, file: zone.finish(job, file)
        )


def _trained(zone: EdgeZone) -> list[SiteJob]:
    return [job for job in zone.state.jobs.values() if job.phase is Phase.TRAINED]


def _has_trained(message: Message) -> bool:
    return bool(message["kind"] == "trained")
