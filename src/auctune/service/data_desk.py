"""What a zone finds out about data sets: their sizes, and who would mend them for how much."""

import asyncio
from collections.abc import Collection, Sequence
from pathlib import Path

from auctune.domain import InputError
from auctune.domain.data_size import DataSize
from auctune.run.data.client import DataClient
from auctune.service.files.library import Library
from auctune.service.files.record import FileRecord
from auctune.service.jobs.training import Training
from auctune.service.repair.house import HouseVendor
from auctune.service.repair.outside import OutsideVendor, ask_outside
from auctune.service.vendors.links import Clock
from auctune.service.zones.appraisal import Appraisal, VendorOffer


class DataDesk:
    """Looks at data sets for one base.

    Args:
        base: its name.
        client: of the data process.
        library: where the files are.
        house: the vendor in a process of ours; none: there is none.
        outside: vendors that are reached over HTTP.
        quote_seconds: after which one of those that has said nothing is out of an auction.
        clock: unix time.
    """

    def __init__(
        self,
        base: str,
        client: DataClient,
        library: Library,
        house: HouseVendor | None,
        outside: Sequence[OutsideVendor],
        quote_seconds: float,
        clock: Clock,
    ) -> None:
        self._base = base
        self._client = client
        self._library = library
        self._house = house
        self._outside = outside
        self._quote_seconds = quote_seconds
        self._clock = clock

    @property
    def has_vendors(self) -> bool:
        """Whether there is anybody who could mend a data set."""
        return self._house is not None or bool(self._outside)

    async def size(self, file: FileRecord, max_length: int) -> DataSize:
        """How much a clean data set is; its tokens are stored for those who train on it."""
        return await self.size_of(self._library.path(file), max_length, file.owner, store=True)

    async def size_of(
        self, path: Path, max_length: int, owner: str, *, store: bool = False
    ) -> DataSize:
        """The same of any file, examined in its owner's turn.

        Raises:
            InputError: if it is none that can be trained on.
        """
        asked = self._client.size(
            self._base, path, "training_file", max_length, owner=owner, store=store
        )
        return (await asyncio.wrap_future(asked)).size

    async def store_tokens(self, file: str, max_length: int, owner: str) -> None:
        """See that the tokens of a file are stored, unless its nodes tokenize it as fast.

        Raises:
            AuctuneError: if that fails.
        """
        path = self._library.blobs.path(file)
        asked = self._client.store(self._base, path, "training_file", max_length, owner=owner)
        await asyncio.wrap_future(asked)

    async def appraise(self, file: FileRecord, training: Training) -> Appraisal:
        """How much a data set is that vendors may mend, and what they ask, all of them at once.

        Raises:
            InputError: if nobody can make anything of it.
        """
        if not self.has_vendors:
            raise InputError("market.repair", "is set, but there is no vendor here", "clean data")
        path, length = self._library.path(file), training.max_length
        found, offers = await asyncio.gather(
            self._ask_house(path, training, file.owner), self._ask_outside(path, self._outside)
        )
        if isinstance(found, Appraisal):
            return Appraisal(found.size, (*found.offers, *offers))
        if offers:
            asked = self._client.measure(
                self._base, path, "training_file", length, owner=file.owner
            )
            return Appraisal(await asyncio.wrap_future(asked), offers)
        raise found or InputError(
            "market.repair", "is set, but no vendor offers it now", "clean data, or another time"
        )

    async def offers(
        self, file: FileRecord, training: Training, without: Collection[str]
    ) -> tuple[VendorOffer, ...]:
        """What vendors ask for mending a data set, but for some of them; none if nobody can."""
        path = self._library.path(file)
        outside = [vendor for vendor in self._outside if vendor.name not in without]
        if self._house is None or self._house.name in without:
            return await self._ask_outside(path, outside)
        found, offers = await asyncio.gather(
            self._ask_house(path, training, file.owner), self._ask_outside(path, outside)
        )
        return (*found.offers, *offers) if isinstance(found, Appraisal) else offers

    async def _ask_house(
        self, path: Path, training: Training, owner: str
    ) -> Appraisal | InputError | None:
        """What the house finds, or why it can do nothing; none: there is no house."""
        if self._house is None:
            return None
        try:
            return await self._house.appraise(self._base, path, training, owner)
        except InputError as error:
            return error

    async def _ask_outside(
        self, path: Path, vendors: Sequence[OutsideVendor]
    ) -> tuple[VendorOffer, ...]:
        return await ask_outside(vendors, path, self._quote_seconds, self._clock)
