"""Inspects data sets for a zone: their sizes, and the offers of vendors to repair them."""

import asyncio
import time
from collections.abc import Collection, Sequence
from functools import cached_property
from pathlib import Path

from auctune.domain import InputError
from auctune.domain.data_size import DataSize
from auctune.engine.data.client import DataClient
from auctune.service.datasets.repairer import (
    BuiltinVendor,
    DatasetQuote,
    ExternalVendor,
    VendorOffer,
    quote_external,
)
from auctune.service.files.repository import FileRecord, FileRepository
from auctune.service.jobs.training import Training
from auctune.service.request_scope import leave_gate, outside_gate
from auctune.service.vendors.shared_files import Clock


class DatasetInspector:
    """Inspects data sets for one base model.

    Args:
        builtin: the vendor in a process of the service, or None.
        external: vendors that are reached over HTTP.
        quote_seconds: after which an external vendor without an answer is left out of an auction.
    """

    def __init__(
        self,
        base: str,
        client: DataClient,
        files: FileRepository,
        builtin: BuiltinVendor | None = None,
        external: Sequence[ExternalVendor] = (),
        quote_seconds: float = 2.0,
        clock: Clock = time.time,
    ) -> None:
        self._base = base
        self._client = client
        self._files = files
        self._builtin = builtin
        self._external = external
        self._quote_seconds = quote_seconds
        self._clock = clock

    @property
    def has_vendors(self) -> bool:
        """Return whether any vendor can repair a data set."""
        return self._builtin is not None or bool(self._external)

    @cached_property
    def examination(self) -> str:
        """Digest of the base's tokenizer and chat template, and the rules of rows."""
        return self._client.examination(self._base)

    async def size(self, file: FileRecord, max_length: int) -> DataSize:
        """Return the size of a clean data set, and store its tokens for those who train on it."""
        return await self.size_of(self._files.path(file), max_length, file.owner, store=True)

    async def size_of(
        self, path: Path, max_length: int, owner: str, *, store: bool = False
    ) -> DataSize:
        """Return the size of the data set in any file, examined in its owner's turn."""
        future = self._client.size(
            self._base, path, "training_file", max_length, owner=owner, store=store
        )
        return (await outside_gate(future)).size

    async def store_tokens(self, file: str, max_length: int, owner: str) -> None:
        """Store the tokens of a file, unless nodes tokenize it as fast."""
        path = self._files.blobs.path(file)
        future = self._client.store(self._base, path, "training_file", max_length, owner=owner)
        await outside_gate(future)

    async def inspect(self, file: FileRecord, training: Training) -> DatasetQuote:
        """Return the size of a data set, and the offers of all vendors if it needs repair."""
        if not self.has_vendors:
            raise InputError("market.repair", "is set, but the zone has no vendor", "clean data")
        path, length = self._files.path(file), training.max_length
        found, offers = await asyncio.gather(
            self._quote_builtin(path, training, file.owner),
            self._quote_external(path, self._external),
        )
        if isinstance(found, DatasetQuote):
            return DatasetQuote(found.size, (*found.offers, *offers))
        if offers:
            future = self._client.measure(
                self._base, path, "training_file", length, owner=file.owner
            )
            return DatasetQuote(await outside_gate(future), offers)
        raise found or InputError(
            "market.repair", "is set, but no vendor makes an offer now", "clean data, or a retry"
        )

    async def offers(
        self, file: FileRecord, training: Training, without: Collection[str]
    ) -> tuple[VendorOffer, ...]:
        """Return the offers of vendors other than some; empty if none can repair the data."""
        path = self._files.path(file)
        external = [vendor for vendor in self._external if vendor.name not in without]
        if self._builtin is None or self._builtin.name in without:
            return await self._quote_external(path, external)
        found, offers = await asyncio.gather(
            self._quote_builtin(path, training, file.owner), self._quote_external(path, external)
        )
        return (*found.offers, *offers) if isinstance(found, DatasetQuote) else offers

    async def _quote_builtin(
        self, path: Path, training: Training, owner: str
    ) -> DatasetQuote | InputError | None:
        """Return the built-in vendor's appraisal or error, or None if there is no such vendor."""
        if self._builtin is None:
            return None
        try:
            return await self._builtin.appraise(self._base, path, training, owner)
        except InputError as error:
            return error

    async def _quote_external(
        self, path: Path, vendors: Sequence[ExternalVendor]
    ) -> tuple[VendorOffer, ...]:
        leave_gate()
        return await quote_external(vendors, path, self._quote_seconds, self._clock)
