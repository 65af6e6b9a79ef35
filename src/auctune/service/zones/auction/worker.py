"""Background worker of an auction zone: nodes, repairs, tokenized data."""

from pathlib import Path
from typing import ClassVar

import structlog

from auctune.domain import AuctuneError
from auctune.service.datasets.inspector import DatasetInspector
from auctune.service.zones.auction.job import AuctionJob
from auctune.service.zones.auction.repairs import RepairCoordinator
from auctune.service.zones.auction.scheduler import AuctionScheduler
from auctune.service.zones.auction.zone import AuctionZone
from auctune.service.zones.core.actor import ZoneActor
from auctune.service.zones.core.clock import SlotClock
from auctune.service.zones.core.dependencies import ZoneDependencies
from auctune.service.zones.core.job import Phase
from auctune.service.zones.core.scheduler import MakeExecutor, SlotWorker

_log = structlog.get_logger(__name__)


class AuctionWorker(SlotWorker[AuctionZone]):
    """Worker of an auction zone: an executor trains slots on nodes, and vendors repair data."""

    scheduler: ClassVar[type[AuctionScheduler]] = AuctionScheduler

    def __init__(
        self,
        actor: ZoneActor[AuctionZone],
        clock: SlotClock,
        make_executor: MakeExecutor,
        work: Path,
        inspector: DatasetInspector,
        repairs: RepairCoordinator,
        dependencies: ZoneDependencies,
    ) -> None:
        super().__init__(actor, clock, make_executor, work, dependencies)
        self._inspector = inspector
        self._repairs = repairs
        # Jobs whose data are final, and whose tokens are stored or being stored.
        self._tokenized: set[str] = set()

    async def _start_processes(self) -> None:
        await super()._start_processes()
        self._repairs.resume(await self._actor.call(lambda zone: list(zone.state.jobs.values())))

    async def _stop_processes(self) -> None:
        await self._repairs.close()
        await super()._stop_processes()

    async def _run_slot(self) -> None:
        await super()._run_slot()
        await self._prepare_data()

    async def _prepare_data(self) -> None:
        """Start repairs of data, and store the tokens of data that need none."""

        def untrained(zone: AuctionZone) -> tuple[list[AuctionJob], list[AuctionJob]]:
            jobs = [job for job in zone.state.jobs.values() if job.phase is not Phase.TRAINED]
            return (
                [job for job in jobs if job.needs_repair],
                [job for job in jobs if not job.needs_repair],
            )

        to_repair, to_train = await self._actor.call(untrained)
        for job in to_repair:
            self._jobs.start_once(job.id, self._repairs.run(job))
        for job in to_train:
            if job.id not in self._tokenized:
                self._tasks.spawn(self._store_tokens(job))
        self._tokenized = {job.id for job in to_train}

    async def _store_tokens(self, job: AuctionJob) -> None:
        """Store the tokens that a job's nodes read; without them, they tokenize in their slots."""
        training = job.training
        for file in (job.repaired or training.data, training.validation):
            if file is None:
                continue
            try:
                await self._inspector.store_tokens(file, training.max_length, job.owner)
            except AuctuneError as error:
                _log.warning(
                    "token counts of a file were not stored",
                    job=job.id,
                    file=file,
                    reason=str(error),
                )
