"""Background worker of an auction zone: slots on nodes, repairs, tokenized data.

Work that a slot did not finish is part of the targets of later ones. When a node has answered, or
will not, plans that cannot finish any more are replanned at the market's cost, while there is
capacity before the deadline.

A vendor that fails or is late is replaced by another one at the service's cost: the owner's payment
stays the same, and is refunded in full if no vendor is left. The id of an order is derived from the
job and its repair, so that an order which is sent again after a restart is the same order.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import floor
from pathlib import Path
from typing import ClassVar

import structlog

from auctune.domain import AuctuneError, InputError
from auctune.domain.data_size import DataSize
from auctune.engine.unix_time import SlotClock
from auctune.service.datasets.repairer import Repair, Repairer, RepairOrder, VendorOffer
from auctune.service.datasets.training_data import DatasetInspector
from auctune.service.files.repository import FileRepository
from auctune.service.tasks import TaskSet
from auctune.service.vendors.protocol import Fault, VendorError
from auctune.service.zones.auction.state import AuctionJob
from auctune.service.zones.auction.zone import AuctionZone
from auctune.service.zones.core.actor import ZoneActor
from auctune.service.zones.core.job import MAX_SHORTFALL, TRAINED_LATER, Phase
from auctune.service.zones.core.scheduler import MakeExecutor, SlotScheduler, SlotWorker
from auctune.service.zones.core.worker import ZoneDependencies

_log = structlog.get_logger(__name__)

# Templates add some tokens to short rows; more than that would be training that was not paid for.
_MAX_GROWTH = 1.25


class RepairCoordinator:
    """Sends repair orders for the jobs of one zone, and records the results."""

    def __init__(
        self,
        actor: ZoneActor[AuctionZone],
        clock: SlotClock,
        vendors: Mapping[str, Repairer],
        inspector: DatasetInspector,
        files: FileRepository,
        work: Path,
    ) -> None:
        self._actor, self._clock = actor, clock
        self._vendors = vendors
        self._inspector = inspector
        self._files = files
        self._work = work
        self._background = TaskSet()

    async def close(self) -> None:
        await self._background.close()

    def resume(self, jobs: Iterable[AuctionJob]) -> None:
        """Resume after a start: discard orders that are over, in case that was interrupted."""
        for job in jobs:
            for repair in job.failed_repairs:
                self._discard_order(self._order(job, repair))
            if job.repaired is not None:
                self._discard_order(self._current_order(job))

    async def run(self, job: AuctionJob) -> None:
        """Have the chosen vendor repair a job's data; replace a vendor that fails."""
        order = self._current_order(job)
        try:
            await self._repair(job, order)
        except (VendorError, InputError) as error:
            await self._replace(job, order, error)
        self._discard_order(order)

    async def _repair(self, job: AuctionJob, order: RepairOrder) -> None:
        name = order.repair.vendor
        vendor = self._vendors.get(name)
        if vendor is None:
            raise VendorError(name, Fault.UNREACHABLE, "it is no longer in the settings")
        target = self._work / f"{job.id}.jsonl"
        source = self._files.blobs.path(job.training.data)
        report = (await vendor.repair(order, source, target)).to_json()
        size = await self._inspector.size_of(target, job.training.max_length, job.owner)
        _check_growth(name, size, job.size)
        name = f"{job.id}-repaired.jsonl"
        # Of an attempt that ended before it was recorded.
        if (earlier := (await self._files.results(job.owner, job.id)).get(name)) is not None:
            await self._files.delete(earlier)
        record = await self._files.import_result(job.owner, name, target)
        is_taken = await self._actor.call(
            lambda zone: zone.complete_repair(job.id, order.repair, record.id, size, report)
        )
        if not is_taken:
            # The job ended before its data were repaired.
            await self._files.delete(record)

    async def _replace(self, job: AuctionJob, order: RepairOrder, error: AuctuneError) -> None:
        name = order.repair.vendor
        _log.warning("a repair failed", job=job.id, vendor=name, reason=str(error))
        if not await self._actor.call(lambda zone: zone.waits_for(job.id, order.repair)):
            return
        offers = await self._offers(job, {name} | job.failed_vendors)
        why = f"vendor {name} did not repair the data{_public_reason(error)}"
        await self._actor.call(lambda zone: zone.switch_vendor(job.id, order.repair, why, offers))

    async def _offers(self, job: AuctionJob, without: set[str]) -> tuple[VendorOffer, ...]:
        file = await self._files.stored(job.training.data)
        return () if file is None else await self._inspector.offers(file, job.training, without)

    def _current_order(self, job: AuctionJob) -> RepairOrder:
        assert job.repair is not None
        return self._order(job, job.repair)

    def _order(self, job: AuctionJob, repair: Repair) -> RepairOrder:
        return RepairOrder(job.id, job.owner, repair, self._clock.slot_start(repair.ready))

    def _discard_order(self, order: RepairOrder) -> None:
        """In the background: a vendor that is away may take long to answer."""
        vendor = self._vendors.get(order.repair.vendor)
        if vendor is not None:
            self._background.spawn(_discard(vendor, order))


async def _discard(vendor: Repairer, order: RepairOrder) -> None:
    try:
        await vendor.discard(order)
    except VendorError as error:
        _log.warning("a vendor did not delete its data", vendor=vendor.name, reason=str(error))


def _check_growth(vendor: str, size: DataSize, raw: DataSize) -> None:
    """Check that there is not much more to train than in the data that were sent."""
    if size.rows * size.mean_tokens > _MAX_GROWTH * raw.rows * raw.mean_tokens:
        detail = f"{size.rows} rows, more tokens than were sent"
        raise VendorError(vendor, Fault.RESULT, detail)


def _public_reason(error: AuctuneError) -> str:
    """Return what owners read of an error: the kind of fault; the rest may be a vendor's text."""
    return f" ({error.fault})" if isinstance(error, VendorError) else ""


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
