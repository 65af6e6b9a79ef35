"""Background worker of an edge zone: the process that trains at its sites."""

import asyncio
from pathlib import Path

import structlog

from auctune.engine.edge.edge_folder import EdgeFolder
from auctune.engine.edge.worker import SitesProcess, SitesSettings
from auctune.engine.messages.base import Alive, Failed
from auctune.engine.messages.sites import SitesReady, SitesReply, SlotEnded, SlotTrained
from auctune.engine.runtime.channel import OnMessage
from auctune.service.zones.core.actor import ZoneActor
from auctune.service.zones.core.clock import SlotClock
from auctune.service.zones.core.dependencies import ZoneDependencies
from auctune.service.zones.core.supervisor import ProcessSupervisor
from auctune.service.zones.core.worker import ZoneWorker
from auctune.service.zones.edge.job import EdgeJobState
from auctune.service.zones.edge.scheduler import SlotScheduler
from auctune.service.zones.edge.zone import EdgeZone

_log = structlog.get_logger(__name__)

# Nodes take some seconds to start, and slots sold before that would pass untrained.
_START_SECONDS = 90.0


class EdgeWorker(ZoneWorker[EdgeZone]):
    """Worker of an edge zone: one supervised process trains at all sites.

    Args:
        actor: actor of the zone.
        clock: slots of the zone.
        settings: settings of the process.
        dependencies: what all zones share.
    """

    def __init__(
        self,
        actor: ZoneActor[EdgeZone],
        clock: SlotClock,
        settings: SitesSettings,
        dependencies: ZoneDependencies,
    ) -> None:
        self._folder = EdgeFolder(Path(settings.folder))
        super().__init__(actor, clock, self._folder.jobs, dependencies)
        self._settings = settings
        self._scheduler = SlotScheduler(self._files.blobs.path, self._folder.read_outcome)
        self._supervisor = ProcessSupervisor(
            self._launch, self._on_message, _is_progress, zone=actor.name
        )
        self._process: SitesProcess | None = None
        self._ready = asyncio.Event()

    async def start(self) -> None:
        """Start the process, and wait until it is ready to train."""
        await super().start()
        try:
            await asyncio.wait_for(self._ready.wait(), _START_SECONDS)
        except TimeoutError:
            _log.warning("the sites are not ready yet", zone=self._actor.name)

    async def _stop_processes(self) -> None:
        await asyncio.to_thread(self._supervisor.stop)

    async def _run_slot(self) -> None:
        await asyncio.to_thread(self._supervisor.poll)
        if self._supervisor.is_crash_looping:
            await self._actor.call(self._scheduler.mark_all_lost)
        await self._actor.call(self._scheduler.run_slot)

    def _is_running(self, job: str) -> bool:
        return self._scheduler.is_running(job)

    def _result_folder(self, job: EdgeJobState) -> Path:
        return self._folder.adapter(job.id)

    def _launch(self, forward: OnMessage) -> SitesProcess:
        def on_message(message: SitesReply | None) -> None:
            if message is None:
                self._actor.submit(lambda _: self._scheduler.on_process_exit())
            forward(message)

        log = self._logs / f"{self._actor.name}.log"
        self._process = SitesProcess(self._settings, on_message, lock=self._lock, log=log)
        return self._process

    def _on_message(self, message: SitesReply) -> None:
        process = self._process
        if isinstance(message, SitesReady):
            self._loop.call_soon_threadsafe(self._ready.set)
        if not isinstance(message, Alive | Failed) and process is not None:
            self._post(lambda zone: self._scheduler.on_message(zone, process, message))


def _is_progress(message: SitesReply) -> bool:
    return isinstance(message, SlotEnded) and isinstance(message.end, SlotTrained)
