"""The vendors of a zone, built-in and external, their offers and their repairs of data sets."""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Protocol

import httpx2
import structlog
from starlette.types import ASGIApp
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    wait_random_exponential,
)

from auctune.domain import InputError, Money
from auctune.domain.data_size import DataSize
from auctune.engine.data.client import DataClient
from auctune.engine.vendors import RepairParams, RepairReport
from auctune.service.config.vendors import BuiltinVendorConfig
from auctune.service.fair_queue import outside_gate
from auctune.service.jobs.training import Training
from auctune.service.vendors.client import (
    IF_TRANSIENT,
    Clock,
    SharedFiles,
    VendorClient,
    VendorParams,
    make_client,
    make_vendor_app,
    request_quotes,
)
from auctune.service.vendors.protocol import Fault, Offer, Order, VendorError, check_url, summarize

VENDOR_ROOT = "/vendors"
# A finished result can be fetched, even if it was due while the service was down.
_MIN_FETCH_SECONDS = 5.0
# Between two requests to delete data, to a vendor that is away.
_MAX_DISCARD_WAIT_SECONDS = 300.0

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class VendorOffer:
    """A vendor's offer to repair a data set.

    Attributes:
        seconds: delay that it promises.
        reference: the vendor's id of the offer, if an order has to name it.
    """

    vendor: str
    price: Money
    seconds: float
    reference: str = ""


@dataclass(frozen=True, slots=True)
class DatasetQuote:
    """Size of what would be trained on, and offers to repair it if the data are not clean."""

    size: DataSize
    offers: tuple[VendorOffer, ...] = ()


@dataclass(frozen=True, slots=True)
class Repair:
    """A repair of a job's data, as agreed with a vendor.

    Attributes:
        price: paid to the vendor when the result has arrived.
        ready: the first slot that may train on the result; before it the vendor is not late.
        reference: the vendor's id of its offer, if the order has to name it.
    """

    vendor: str
    price: Money
    ready: int
    reference: str = ""


@dataclass(frozen=True, slots=True)
class RepairOrder:
    """Order of a repair for a job. After a restart the same values give the same order.

    Attributes:
        due_at: unix time from which on the data are late.
    """

    job: str
    owner: str
    repair: Repair
    due_at: float

    @property
    def id(self) -> str:
        """Id of the order for the vendor; it does not reveal the job's id."""
        text = "\n".join((self.job, self.repair.vendor, self.repair.reference))
        return sha256(text.encode()).hexdigest()[:40]


class Repairer(Protocol):
    """A vendor that can be given repair orders."""

    @property
    def name(self) -> str:
        """Name, unique in its zone."""
        ...

    async def repair(self, order: RepairOrder, source: Path, target: Path) -> RepairReport:
        """Repair `source`; `target` appears whole or not at all, and is a data set.

        Raises:
            VendorError: if the vendor does not deliver what it promised, or not in time.
            InputError: if the data cannot be repaired.
        """
        ...

    async def discard(self, order: RepairOrder) -> None:
        """Have the vendor delete its copy of the data, however long it is away.

        Raises:
            VendorError: if it refuses to.
        """
        ...


@dataclass(frozen=True, slots=True)
class BuiltinVendor:
    """The service's own vendor, in the data process. It repairs before it offers."""

    client: DataClient
    params: RepairParams
    seconds: float

    @property
    def name(self) -> str:
        return self.params.name

    async def appraise(self, base: str, path: Path, training: Training, owner: str) -> DatasetQuote:
        """Estimate the largest size of a data set, repaired or not, and the price of its repair."""
        length = training.max_length
        future = self.client.appraise(
            base, path, "training_file", length, [self.params], owner=owner
        )
        found = await outside_gate(future)
        for offer in found.offers:
            size = offer.facts.size
            size.check_truncation("training_file", length, truncate=training.truncate)
        offers = (VendorOffer(self.name, offer.quote.price, self.seconds) for offer in found.offers)
        # One line may hold many rows, as an array: the repair counts them, a line count does not.
        sizes = [found.size, *(offer.facts.size for offer in found.offers)]
        largest = max(sizes, key=lambda one: one.rows * one.mean_tokens)
        size = replace(
            sizes[-1],
            rows=largest.rows,
            mean_tokens=largest.mean_tokens,
            square_tokens=largest.square_tokens,
        )
        return DatasetQuote(size, tuple(offers))

    async def repair(self, order: RepairOrder, source: Path, target: Path) -> RepairReport:
        future = self.client.repair(source, target, self.params, owner=order.owner)
        return await outside_gate(future)

    async def discard(self, _: RepairOrder) -> None:
        """Do nothing: the vendor keeps no copy."""


def builtin_vendor(entry: BuiltinVendorConfig, client: DataClient) -> BuiltinVendor | None:
    """Return the built-in vendor of a zone's settings, or None if it is disabled."""
    if not entry.enabled:
        return None
    return BuiltinVendor(client, entry.params(), entry.seconds)


@dataclass(frozen=True, slots=True)
class ExternalVendor:
    """A vendor that is reached over HTTP; see `Repairer`."""

    client: VendorClient
    files: SharedFiles
    clock: Clock = time.time

    @property
    def name(self) -> str:
        return self.client.name

    async def repair(self, order: RepairOrder, source: Path, target: Path) -> RepairReport:
        agreed, summary = order.repair, await asyncio.to_thread(summarize, source)
        request = Order(order.id, agreed.reference, agreed.price, summary)
        seconds = max(_MIN_FETCH_SECONDS, order.due_at - self.clock())
        with self.files.share(source, summary.sha256, self.name):
            try:
                async with asyncio.timeout(seconds):
                    await self.client.order(request)
                    return await self.client.fetch(request, target, seconds)
            except TimeoutError:
                detail = "no result when it was due"
                raise VendorError(self.name, Fault.LATE, detail) from None

    async def discard(self, order: RepairOrder) -> None:
        def warn(state: RetryCallState) -> None:
            assert state.outcome is not None
            reason = str(state.outcome.exception())
            _log.warning("a vendor is yet to delete its data", job=order.job, reason=reason)

        waits = AsyncRetrying(
            retry=IF_TRANSIENT,
            wait=wait_random_exponential(multiplier=1, max=_MAX_DISCARD_WAIT_SECONDS),
            before_sleep=warn,
        )
        await waits(self.client.discard, order.id)


async def quote_external(
    vendors: Sequence[ExternalVendor], path: Path, seconds: float, clock: Clock
) -> tuple[VendorOffer, ...]:
    """Return the offers of external vendors that answer within `seconds`."""
    if not vendors:
        return ()
    summary = await asyncio.to_thread(summarize, path)
    with ExitStack() as shared:
        for vendor in vendors:
            shared.enter_context(vendor.files.share(path, summary.sha256, vendor.name))
        answers = await request_quotes([vendor.client for vendor in vendors], summary, seconds)
    return tuple(
        VendorOffer(offer.vendor, offer.price, offer.delay_seconds, offer.id)
        for offer in answers
        if isinstance(offer, Offer) and offer.valid_until > clock()
    )


class VendorGateway:
    """Connects the external vendors of all zones with the service, which they reach at `url`."""

    def __init__(self, url: str, now: Callable[[], float]) -> None:
        self._url = url
        self._now = now
        self._files = SharedFiles()
        self._params: dict[str, VendorParams] = {}

    def vendors(self, entries: Iterable[VendorParams]) -> tuple[ExternalVendor, ...]:
        """Return the external vendors of a zone.

        A vendor must be the same in all zones, and fetch data sets over TLS or on this machine.
        """
        return tuple(self._vendor(params) for params in entries)

    @property
    def app(self) -> ASGIApp | None:
        """Application to mount at `VENDOR_ROOT`, or None without external vendors."""
        if not self._params:
            return None
        tokens = {name: params.token for name, params in self._params.items()}
        return make_vendor_app(self._files, tokens)

    async def close(self) -> None:
        if "_client" in vars(self):
            await self._client.aclose()

    @cached_property
    def _client(self) -> httpx2.AsyncClient:
        return make_client()

    def _vendor(self, params: VendorParams) -> ExternalVendor:
        check_url(self._url, "public_url")
        place = f"vendor {params.name}"
        known = self._params.setdefault(params.name, params)
        if known.url != params.url:
            found = f"{params.url} here, and {known.url} in another zone"
            raise InputError(f"{place}: url", found, "the same URL in all zones")
        if known.token != params.token:
            found = "differs from the token in another zone"
            raise InputError(f"{place}: token", found, "the same token in all zones")
        data_url = f"{self._url.rstrip('/')}{VENDOR_ROOT}/data"
        client = VendorClient(params, data_url, self._client, self._now)
        return ExternalVendor(client, self._files, self._now)
