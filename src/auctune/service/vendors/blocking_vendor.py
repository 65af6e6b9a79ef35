"""An HTTP vendor where code without an event loop expects a `Vendor`.

Its calls wait in their own thread while the loop, that of another thread, goes on. The files to
repair are lent to the `data_app` of that loop for as long as a call lasts.
"""

import asyncio
from collections.abc import Coroutine
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

import structlog

from auctune.domain import Quote
from auctune.run.vendors import RepairReport
from auctune.service.vendors.data_facts import DataFacts, read_facts
from auctune.service.vendors.fault import Fault, VendorError
from auctune.service.vendors.http_vendor import HttpVendor
from auctune.service.vendors.lent_files import LentFiles
from auctune.service.vendors.links import Clock
from auctune.service.vendors.offer import Offer, Order
from auctune.service.vendors.quote_round import ask_vendors

T = TypeVar("T")

_log = structlog.get_logger(__name__)


class BlockingVendor:
    """Waits for an `HttpVendor`.

    Args:
        vendor: who does the work.
        loop: runs in another thread, and serves the `data_app` that finds `lent` files.
        lent: where files are lent.
        clock: unix time.
        slot_seconds: in which delays are counted.
        quote_seconds: after which a vendor without an answer counts as one that declines.
        repair_seconds: that a repair may last.
    """

    def __init__(
        self,
        vendor: HttpVendor,
        loop: asyncio.AbstractEventLoop,
        lent: LentFiles,
        clock: Clock,
        slot_seconds: float,
        quote_seconds: float,
        repair_seconds: float,
    ) -> None:
        self._vendor = vendor
        self._loop = loop
        self._lent = lent
        self._clock = clock
        self._slot_seconds = slot_seconds
        self._quote_seconds = quote_seconds
        self._repair_seconds = repair_seconds
        self._offers: dict[str, Offer] = {}

    @property
    def name(self) -> str:
        """The vendor's name."""
        return self._vendor.name

    def quote(self, path: Path) -> Quote | None:
        """Price and delay; none if the vendor declines, or gives no good answer in time.

        Raises:
            InputError: if the file cannot be read.
        """
        offer = self._ask(path, read_facts(path))
        return None if offer is None else offer.to_quote(self._slot_seconds)

    def repair(self, source: Path, target: Path) -> RepairReport:
        """Order by the offer that stands for these bytes, or by a new one, and wait.

        Raises:
            InputError: if `source` cannot be read.
            VendorError: if nothing comes of it.
        """
        data = read_facts(source)
        offer = self._offers.pop(data.sha256, None)
        if offer is None or offer.valid_until <= self._clock():
            offer = self._ask(source, data)
        if offer is None:
            raise VendorError(self.name, Fault.REFUSED, "no offer stands for this data set")
        # By the offer, so that a repair that is tried again is the same order.
        order_id = sha256(f"{self.name}\n{offer.id}\n{data.sha256}".encode()).hexdigest()
        order = Order(order_id, offer.id, offer.price, data)
        with self._lent.lend(source, data.sha256, self.name):
            return self._wait(self._work(order, target))

    async def _work(self, order: Order, target: Path) -> RepairReport:
        await self._vendor.order(order)
        report = await self._vendor.fetch(order, target, self._repair_seconds)
        try:
            await self._vendor.forget(order.id)
        except VendorError as error:
            _log.warning("vendor_keeps_data", vendor=self.name, detail=error.detail)
        return report

    def _ask(self, path: Path, data: DataFacts) -> Offer | None:
        with self._lent.lend(path, data.sha256, self.name):
            found = self._wait(ask_vendors([self._vendor], data, self._quote_seconds))
        now = self._clock()
        self._offers = {
            digest: offer for digest, offer in self._offers.items() if offer.valid_until > now
        }
        for offer in found.offers:
            self._offers[data.sha256] = offer
            return offer
        return None

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()
