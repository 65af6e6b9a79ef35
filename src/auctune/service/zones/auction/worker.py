"""Background worker of an auction zone: slots on nodes, repairs, tokenized data.

Work that a slot did not finish is part of the targets of later ones. When a node has answered, or
will not, plans that cannot finish any more are replanned at the market's cost, while there is
capacity before the deadline.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import floor
from pathlib import Path
from typing import ClassVar

import structlog

from auctune.domain import AuctuneError
from auctune.service.datasets.inspector import DatasetInspector
from auctune.service.zones.auction.job import AuctionJob
from auctune.service.zones.auction.repairs import RepairCoordinator
from auctune.service.zones.auction.zone import AuctionZone
from auctune.service.zones.core.actor import ZoneActor
from auctune.service.zones.core.clock import SlotClock
from auctune.service.zones.core.dependencies import ZoneDependencies
from auctune.service.zones.core.job import Phase
from auctune.service.zones.core.scheduler import MakeExecutor, SlotScheduler, SlotWorker
from auctune.service.zones.core.speed import MAX_SHORTFALL, TRAINED_LATER

_log = structlog.get_logger(__name__)

_SLACK = 1e-9


class AuctionScheduler(SlotScheduler[AuctionZone, AuctionJob]):
    """Scheduler of an auction zone: plans say which job trains where."""

    def resume(self, zone: AuctionZone) -> None:
        # Nodes that were lost before the restart have new processes.
        for node in sorted(zone.state.lost - zone.state.drained):
            zone.return_node(node)
        super().resume(zone)

    def _assignments(self, zone: AuctionZone) -> Mapping[str, Sequence[AuctionJob]]:
        return zone.state.cells_of(zone.state.slot)

    def _can_train(self, zone: AuctionZone, job: AuctionJob) -> bool:
        return not job.needs_repair and super()._can_train(zone, job)

    def _training_file(self, job: AuctionJob) -> str:
        return job.repaired or job.training.data

    def _target(self, zone: AuctionZone, job: AuctionJob) -> int:
        """Return the rows that the plan has sold up to the end of this slot."""
        slot = zone.state.slot
        if slot == job.cells[-1].slot:
            # The trainer counts its own: a job of an older log has no validation rows here.
            return max(job.total_rows, job.progress.total_rows)
        sold = sum(
            job.task.throughput[zone.state.node_type(cell.node)]
            for cell in job.cells
            if cell.slot <= slot
        )
        share, epochs = sold / job.task.work, job.training.epochs
        if job.size.validation is not None:
            return job.size.rows_of(share * job.size.samples(epochs, 1.0), epochs)
        return min(job.total_rows, floor(share * job.total_rows + _SLACK))

    def _on_slot_trained(
        self, zone: AuctionZone, node: str, rows: Mapping[str, tuple[int, int]], seconds: float
    ) -> None:
        """Compare the rows of a slot with those sold, at the speed of the profile."""
        sold = trained = 0.0
        is_complete = True
        for name, (before, after) in rows.items():
            job = zone.admitted_jobs[name]
            share = job.task.throughput[zone.state.node_type(node)] / job.task.work
            # Rows of validation data take less time than others.
            share_before, share_after = (
                job.size.share_of(count, job.training.epochs) for count in (before, after)
            )
            due = min(share, 1 - share_before)
            done = min(due, share_after - share_before)
            # An optimizer batch may end in the next slot.
            missing = (due - share_after + share_before) * job.total_rows
            missing -= job.training.batch_size + _SLACK
            is_complete &= missing <= 0
            if missing > MAX_SHORTFALL * due * job.total_rows:
                zone.note(name, TRAINED_LATER)
            sold += due * job.task.work
            # On slower nodes a task has more work than by the profile.
            trained += done * zone.supply.work(job.training, job.size)
        if sold:
            # A node that was done early could have trained more.
            slot_seconds = zone.clock.slot_seconds
            used = min(seconds / slot_seconds, 1.0) if is_complete else 1.0
            zone.speed.record_slot(trained / sold / max(used, _SLACK))

    def _on_slot_begun(self, zone: AuctionZone) -> None:
        if not self._in_flight and not zone.state.cells_of(zone.state.slot):
            zone.speed.record_idle_slot()
        self._check_plans(zone, "a slot passed without training")

    def _check_plans(self, zone: AuctionZone, why: str) -> None:
        """Replan jobs that fall short; those in flight are checked when their slot is over."""
        for job in sorted(zone.state.jobs.values(), key=lambda job: job.task.deadline):
            if not self._is_in_flight(job):
                self._on_shortfall(zone, job, why)

    def _on_shortfall(self, zone: AuctionZone, job: AuctionJob, why: str) -> None:
        """Replan a job if the rest of its plan cannot finish the rest of its work."""
        if job.phase is Phase.PAUSED:
            zone.end_if_late(job)
        if job.phase in (Phase.PAUSED, Phase.TRAINED):
            return
        remaining = job.cells_from(zone.state.slot + 1)
        speeds = [job.task.throughput[zone.state.node_type(cell.node)] for cell in remaining]
        tolerance = MAX_SHORTFALL * (min(speeds) if speeds else 0.0)
        if job.work_left > sum(speeds) + tolerance and not self._is_in_flight(job):
            zone.replan(job, why)

    def _on_node_lost(self, zone: AuctionZone, node: str, why: str) -> None:
        zone.lose_node(node, why)

    def _on_node_recovered(self, zone: AuctionZone, node: str) -> None:
        if node not in zone.state.drained:
            zone.return_node(node)
            # Jobs with a cell in a slot that has just begun are in flight then.
            self.run_slot(zone)
            self._check_plans(zone, "a node was lost")

    def _jobs_of(
        self, zone: AuctionZone, requests: Mapping[tuple[int, str], frozenset[str]]
    ) -> Iterable[AuctionJob]:
        # Those with a cell that did not train because their data are being repaired, too.
        return [
            job
            for job in zone.state.jobs.values()
            if any((cell.slot, cell.node) in requests for cell in job.cells)
        ]

    def _is_in_flight(self, job: AuctionJob) -> bool:
        return any((cell.slot, cell.node) in self._in_flight for cell in job.cells)


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
