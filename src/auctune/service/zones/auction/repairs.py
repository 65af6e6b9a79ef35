"""Has vendors repair the data of admitted jobs.

A vendor that fails or is late is replaced by another one at the service's cost: the owner's payment
stays the same, and is refunded in full if no vendor is left. The id of an order is derived from the
job and its repair, so that an order which is sent again after a restart is the same order.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

import structlog

from auctune.domain import AuctuneError, InputError
from auctune.domain.data_size import DataSize
from auctune.service.datasets.inspector import DatasetInspector
from auctune.service.datasets.repairer import Repair, Repairer, RepairOrder, VendorOffer
from auctune.service.files.repository import FileRepository
from auctune.service.tasks import TaskSet
from auctune.service.vendors.protocol import Fault, VendorError
from auctune.service.zones.auction.job import AuctionJob
from auctune.service.zones.auction.zone import AuctionZone
from auctune.service.zones.core.actor import ZoneActor
from auctune.service.zones.core.clock import SlotClock

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
        file = await self._files.get(job.training.data)
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
