"""Background worker of an auction zone: slots, archives, repairs, snapshots.

The actor decides; the worker waits for slots, nodes and vendors, and tells the actor.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import structlog

from auctune.domain import AuctuneError
from auctune.run.data.client import DataClient
from auctune.run.executor.executor import Executor
from auctune.run.executor.orders import adapter_folder
from auctune.service.dataset_inspector import DatasetInspector
from auctune.service.files.repository import FileRepository
from auctune.service.storage import Committer, Snapshots
from auctune.service.tasks import TaskSet
from auctune.service.zones.auction.executors import MakeExecutor
from auctune.service.zones.auction.gateway import AuctionGateway
from auctune.service.zones.auction.job import AuctionJob
from auctune.service.zones.auction.repair_coordinator import RepairCoordinator
from auctune.service.zones.auction.scheduler import SlotScheduler
from auctune.service.zones.auction.snapshots import AuctionSaver
from auctune.service.zones.auction.zone import AuctionZone
from auctune.service.zones.core.job import Phase
from auctune.service.zones.core.snapshots import Snapshotter
from auctune.service.zones.core.worker import (
    BackgroundJobs,
    ResultArchiver,
    WorkdirCleaner,
    run_every_slot,
)

_log = structlog.get_logger(__name__)

_LOOK_SECONDS = 1.0


class AuctionWorker:
    """Of one zone.

    Args:
        zone: whose.
        make_executor: of the nodes.
        work: folder of checkpoints and adapters.
        library: files.
        data: the data process.
        inspector: stores the tokens of data.
        repairs: has vendors repair data.
        snapshots: reads and makes snapshots.
        committer: writes them.
        alarm: told if the zone cannot go on.
    """

    def __init__(
        self,
        zone: AuctionGateway,
        make_executor: MakeExecutor,
        work: Path,
        library: FileRepository,
        data: DataClient,
        inspector: DatasetInspector,
        repairs: RepairCoordinator,
        snapshots: Snapshots,
        committer: Committer,
        alarm: Callable[[Exception], None],
    ) -> None:
        self._zone = zone
        self._make_executor = make_executor
        self._executor: Executor | None = None
        self._work = work
        self._library = library
        self._packer = ResultArchiver(zone.actor, data, library)
        self._inspector = inspector
        # Jobs whose data are as they will be trained, and whose tokens were asked for.
        self._ready: set[str] = set()
        self._repairs = repairs
        self._alarm = alarm
        self._background = TaskSet()
        self._background_jobs = BackgroundJobs(zone.abandon)
        self._keeper = Snapshotter(zone.actor, zone.clock, AuctionSaver(), snapshots, committer)

    async def start(self) -> None:
        """Start the nodes, and take up what was under way."""
        self._loop = asyncio.get_running_loop()
        self._work.mkdir(parents=True, exist_ok=True)
        self._executor = self._make_executor(self._on_message)
        self._scheduler = SlotScheduler(
            self._executor, self._work, self._library.blobs.path, self._trained
        )
        self._leftovers = WorkdirCleaner(
            self._work,
            self._zone.actor,
            self._scheduler.is_running,
            self._background_jobs.busy,
            self._library.has_job,
            self._library.trash,
        )
        await self._zone.decide_pending()
        self._repairs.resume(await self._zone.call(lambda zone: list(zone.state.jobs.values())))
        await self._zone.call(self._scheduler.resume)
        beating = run_every_slot(self._zone.clock, self._tick, _LOOK_SECONDS, self._alarm)
        self._background.spawn(beating)

    async def stop(self) -> None:
        """Stop the nodes; what they trained in this slot is in their checkpoints."""
        await self._background.close()
        await self._background_jobs.close()
        await self._repairs.close()
        # A start that failed may have made none.
        if self._executor is not None:
            await asyncio.to_thread(self._executor.close)

    async def _tick(self) -> None:
        await self._zone.call(self._scheduler.run_slot)
        await self._take_up()
        await self._leftovers.clean()
        await self._keeper.snapshot_if_due()

    def _on_message(self, node: str, message: dict[str, Any]) -> None:
        """On the executor's thread."""
        if message["kind"] in ("trained", "failed", "unanswered", "noted", "lost", "back"):
            self._zone.actor.post(
                lambda zone: self._scheduler.on_message(zone, node, message), self._alarm
            )

    def _trained(self, job: AuctionJob) -> None:
        """On the actor's thread: a job's adapter is to be packed."""
        self._loop.call_soon_threadsafe(self._archive, job.id, job.owner)

    def _archive(self, job: str, owner: str) -> None:
        self._background_jobs.start_once(job, self._finish(job, owner))

    async def _finish(self, job: str, owner: str) -> None:
        source, target = adapter_folder(self._scheduler.folder(job)), self._work / f"{job}.zip"
        await self._packer.archive(
            job, owner, source, target, lambda zone, file: zone.finish(job, file)
        )

    async def _take_up(self) -> None:
        """Begin the work of vendors that were chosen, what failed before, and storing tokens."""

        def waiting(
            zone: AuctionZone,
        ) -> tuple[list[AuctionJob], list[AuctionJob], list[AuctionJob]]:
            jobs = zone.state.jobs.values()
            return (
                [job for job in jobs if job.needs_repair],
                [job for job in jobs if job.phase is Phase.TRAINED],
                [job for job in jobs if not job.needs_repair and job.phase is not Phase.TRAINED],
            )

        to_repair, to_pack, to_train = await self._zone.call(waiting)
        for job in to_repair:
            self._background_jobs.start_once(job.id, self._repairs.run(job))
        for job in to_pack:
            self._archive(job.id, job.owner)
        for job in to_train:
            if job.id not in self._ready:
                self._background.spawn(self._store_tokens(job))
        self._ready = {job.id for job in to_train}

    async def _store_tokens(self, job: AuctionJob) -> None:
        """Store what a job's nodes read; without it they tokenize in their slots."""
        training = job.training
        for file in (job.repaired or training.data, training.validation):
            if file is None:
                continue
            try:
                await self._inspector.store_tokens(file, training.max_length, job.owner)
            except AuctuneError as error:
                _log.warning("tokens_not_stored", job=job.id, file=file, reason=str(error))
