"""What a zone asks of the data process: sizes of data sets, and what a vendor could mend."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from auctune.domain import InputError
from auctune.run.data.client import DataClient
from auctune.run.vendors import RepairParams
from auctune.service.files.library import Library
from auctune.service.files.record import FileRecord
from auctune.service.jobs.size import DataSize
from auctune.service.jobs.training import Training
from auctune.service.open_zone import Appraisal
from auctune.service.settings.service_file import VendorEntry
from auctune.service.zone.bid import VendorOffer


@dataclass(frozen=True, slots=True)
class HouseVendor:
    """A vendor in a process of ours.

    Attributes:
        params: what it does, and for how much.
        seconds: how long it says that its work lasts.
    """

    params: RepairParams
    seconds: float


def house_vendor(entry: VendorEntry) -> HouseVendor:
    """The vendor of a settings' entry."""
    own = entry.model_dump(exclude={"seconds"})
    params = RepairParams(**{**own, "languages": tuple(own["languages"]), "delay": 0})
    return HouseVendor(params, entry.seconds)


class DataDesk:
    """Looks at data sets for one base.

    Args:
        base: its name.
        client: of the data process.
        library: where the files are.
        vendors: who can mend data.
    """

    def __init__(
        self, base: str, client: DataClient, library: Library, vendors: Sequence[HouseVendor]
    ) -> None:
        self._base = base
        self._client = client
        self._library = library
        self._vendors = {vendor.params.name: vendor for vendor in vendors}

    async def size(self, file: FileRecord, max_length: int) -> DataSize:
        """How much a clean data set is."""
        return await self.size_of(self._library.path(file), max_length)

    async def size_of(self, path: Path, max_length: int) -> DataSize:
        """The same of any file.

        Raises:
            InputError: if it is none that can be trained on.
        """
        facts = await asyncio.wrap_future(
            self._client.size(self._base, path, "training_file", max_length)
        )
        return DataSize(facts.rows, facts.mean_tokens)

    async def appraise(self, file: FileRecord, training: Training) -> Appraisal:
        """How much a data set is that vendors may mend, and what they ask."""
        if not self._vendors:
            raise InputError("market.repair", "is set, but there is no vendor here", "clean data")
        path = self._library.path(file)
        found = await asyncio.wrap_future(
            self._client.appraise(
                self._base,
                path,
                "training_file",
                training.max_length,
                [vendor.params for vendor in self._vendors.values()],
            )
        )
        offers = tuple(
            VendorOffer(
                offer.quote.vendor, offer.quote.price, self._vendors[offer.quote.vendor].seconds
            )
            for offer in found.offers
        )
        return Appraisal(DataSize(found.size.rows, found.size.mean_tokens), offers)
