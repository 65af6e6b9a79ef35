"""Has vendors mend what was sold, until the data are there, or nobody can mend them in time.

A vendor that fails or is late is replaced by another one at the market's cost; what its owner pays
stays, and comes back in full if there is no other. Orders have ids that follow from what was
agreed: after a restart the same order is given again, and is the same work.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

import structlog

from auctune.domain import AuctuneError, InputError
from auctune.domain.data_size import DataSize
from auctune.service.background import Background
from auctune.service.data_desk import DataDesk
from auctune.service.files.library import Library
from auctune.service.repair.mender import Errand, Mender
from auctune.service.vendors import Fault, VendorError
from auctune.service.zones.appraisal import VendorOffer
from auctune.service.zones.auction import repairs
from auctune.service.zones.auction.open_auction import OpenAuction
from auctune.service.zones.auction.open_job import OpenJob

_log = structlog.get_logger(__name__)

# Templates add some tokens to short rows; more than that is work that nobody paid for.
_GROWTH = 1.25


class Mending:
    """Of one zone.

    Args:
        zone: whose jobs they are.
        vendors: by name.
        desk: looks at data sets, and asks for offers.
        library: of files.
        work: folder for what comes in.
    """

    def __init__(
        self,
        zone: OpenAuction,
        vendors: Mapping[str, Mender],
        desk: DataDesk,
        library: Library,
        work: Path,
    ) -> None:
        self._zone = zone
        self._vendors = vendors
        self._desk = desk
        self._library = library
        self._work = work
        self._background = Background()

    async def close(self) -> None:
        """Leave what is under way: it is on record, and goes on after the next start."""
        await self._background.close()

    def resume(self, jobs: Iterable[OpenJob]) -> None:
        """After a start: say again which orders are done with, in case it was not said."""
        for job in jobs:
            if job.repaired is not None:
                self._forget(self._errand(job))

    async def mend(self, job: OpenJob) -> None:
        """See that a job's data are mended by whoever is to.

        Raises:
            DataError: if a process of ours failed; the same may be tried again.
        """
        errand = self._errand(job)
        try:
            await self._deliver(job, errand)
        except (VendorError, InputError) as error:
            await self._replace(job, errand, error)
        self._forget(errand)

    async def _deliver(self, job: OpenJob, errand: Errand) -> None:
        name = errand.repair.vendor
        vendor = self._vendors.get(name)
        if vendor is None:
            raise VendorError(name, Fault.UNREACHABLE, "it is not in the settings any more")
        target = self._work / f"{job.id}.jsonl"
        source = self._library.blobs.path(job.training.data)
        report = (await vendor.mend(errand, source, target)).to_json()
        size = await self._desk.size_of(target, job.training.max_length, job.owner)
        _check_growth(name, size, job.size)
        record = await self._library.keep(job.owner, f"{job.id}-repaired.jsonl", target)
        is_taken = await self._zone.ask(
            lambda zone: repairs.note_repaired(zone, job.id, errand.repair, record.id, size, report)
        )
        if not is_taken:
            # The job was over before its data came.
            await self._library.delete(record)

    async def _replace(self, job: OpenJob, errand: Errand, error: AuctuneError) -> None:
        name = errand.repair.vendor
        _log.warning("vendor_failed", job=job.id, vendor=name, reason=str(error))
        if not await self._zone.ask(
            lambda zone: repairs.is_waited_for(zone, job.id, errand.repair)
        ):
            return
        offers = await self._offers(job, {name, *job.failed_vendors})
        why = f"vendor {name} did not mend the data{_words(error)}"
        await self._zone.ask(
            lambda zone: repairs.change_vendor(zone, job.id, errand.repair, why, offers)
        )

    async def _offers(self, job: OpenJob, without: set[str]) -> tuple[VendorOffer, ...]:
        file = await self._library.get(job.training.data)
        return () if file is None else await self._desk.offers(file, job.training, without)

    def _errand(self, job: OpenJob) -> Errand:
        assert job.repair is not None
        late = self._zone.clock.begins(job.repair.ready)
        return Errand(job.id, job.owner, job.repair, late)

    def _forget(self, errand: Errand) -> None:
        """Nobody waits for that: a vendor that is away may take its time to answer."""
        vendor = self._vendors.get(errand.repair.vendor)
        if vendor is not None:
            self._background.begin(_drop(vendor, errand))


async def _drop(vendor: Mender, errand: Errand) -> None:
    try:
        await vendor.forget(errand)
    except VendorError as error:
        _log.warning("vendor_keeps_data", vendor=vendor.name, reason=str(error))


def _check_growth(vendor: str, size: DataSize, raw: DataSize) -> None:
    """That there is no more to train than the data that were sent could have been.

    Raises:
        VendorError: if there is.
    """
    if size.rows * size.mean_tokens > _GROWTH * raw.rows * raw.mean_tokens:
        detail = f"{size.rows} rows, which are more to train than what was sent"
        raise VendorError(vendor, Fault.RESULT, detail)


def _words(error: AuctuneError) -> str:
    """What an owner reads of a fault: its kind alone, as the rest is a stranger's text."""
    return f" ({error.fault})" if isinstance(error, VendorError) else ""
