"""Vendors outside, as a zone has them: data are lent to those who are asked, while they are."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from auctune.run.vendors import RepairReport
from auctune.service.repair.mender import Errand
from auctune.service.vendors import (
    Fault,
    HttpVendor,
    LentFiles,
    Order,
    VendorError,
    ask_vendors,
    read_facts,
)
from auctune.service.vendors.links import Clock
from auctune.service.zones.appraisal import VendorOffer

# What is ready can be fetched, even if its time passed while nobody was there to fetch it.
_LEAST_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class OutsideVendor:
    """A vendor that is reached over HTTP.

    Attributes:
        http: speaks its protocol.
        lent: where files are lent.
        clock: unix time.
    """

    http: HttpVendor
    lent: LentFiles
    clock: Clock = time.time

    @property
    def name(self) -> str:
        """Unique in its zone."""
        return self.http.name

    async def mend(self, errand: Errand, source: Path, target: Path) -> RepairReport:
        """Order, and wait until the data are late.

        Raises:
            VendorError: if they do not come, or are not what was ordered.
        """
        repair, facts = errand.repair, await asyncio.to_thread(read_facts, source)
        order = Order(errand.order, repair.reference, repair.price, facts)
        seconds = max(_LEAST_SECONDS, errand.late - self.clock())
        with self.lent.lend(source, facts.sha256, self.name):
            try:
                async with asyncio.timeout(seconds):
                    await self.http.order(order)
                    return await self.http.fetch(order, target, seconds)
            except TimeoutError:
                detail = "the data were not there when they were promised"
                raise VendorError(self.name, Fault.LATE, detail) from None

    async def forget(self, errand: Errand) -> None:
        """Have it drop the order.

        Raises:
            VendorError: if it does not say that it did.
        """
        await self.http.forget(errand.order)


async def ask_outside(
    vendors: Sequence[OutsideVendor], path: Path, seconds: float, clock: Clock
) -> tuple[VendorOffer, ...]:
    """What vendors ask for mending a data set; who says nothing within `seconds` is left out.

    Raises:
        InputError: if the file cannot be read.
    """
    if not vendors:
        return ()
    facts = await asyncio.to_thread(read_facts, path)
    with ExitStack() as lent:
        for vendor in vendors:
            lent.enter_context(vendor.lent.lend(path, facts.sha256, vendor.name))
        found = await ask_vendors([vendor.http for vendor in vendors], facts, seconds)
    return tuple(
        VendorOffer(offer.vendor, offer.price, offer.delay_seconds, offer.id)
        for offer in found.offers
        if offer.valid_until > clock()
    )
