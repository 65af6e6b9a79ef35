"""The house vendor: it works in the data process, tries its work before it offers, and is sure."""

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path

from auctune.run.data.client import DataClient
from auctune.run.vendors import RepairParams, RepairReport
from auctune.service.config.vendors import HouseEntry
from auctune.service.jobs.training import Training
from auctune.service.repair.mender import Errand
from auctune.service.zones.appraisal import Appraisal, VendorOffer


@dataclass(frozen=True, slots=True)
class HouseVendor:
    """A vendor in a process of ours.

    Attributes:
        client: of the data process.
        params: what it does, and for how much.
        seconds: how long it says that its work lasts.
    """

    client: DataClient
    params: RepairParams
    seconds: float

    @property
    def name(self) -> str:
        """Unique in its zone."""
        return self.params.name

    async def appraise(self, base: str, path: Path, training: Training, owner: str) -> Appraisal:
        """Estimate how much a data set is at most, repaired or not, and what its repair costs.

        Raises:
            InputError: if nothing would be left of it, or too many rows would lose their ends.
        """
        length = training.max_length
        asked = self.client.appraise(
            base, path, "training_file", length, [self.params], owner=owner
        )
        found = await asyncio.wrap_future(asked)
        for offer in found.offers:
            size = offer.facts.size
            size.check_truncation("training_file", length, truncate=training.truncate)
        offers = (VendorOffer(self.name, offer.quote.price, self.seconds) for offer in found.offers)
        # One line may hold many rows, as an array; what was tried knows better than a count.
        sizes = [found.size, *(offer.facts.size for offer in found.offers)]
        largest = max(sizes, key=lambda one: one.rows * one.mean_tokens)
        tried = sizes[-1]
        size = replace(tried, rows=largest.rows, mean_tokens=largest.mean_tokens)
        return Appraisal(size, tuple(offers))

    async def mend(self, errand: Errand, source: Path, target: Path) -> RepairReport:
        """Repair `source`. It waits for no vendor outside, so that it is never too late."""
        asked = self.client.repair(source, target, self.params, owner=errand.owner)
        return await asyncio.wrap_future(asked)

    async def forget(self, _: Errand) -> None:
        """It keeps nothing."""


def house_vendor(entry: HouseEntry, client: DataClient) -> HouseVendor | None:
    """The vendor of a zone's settings; none: it is off."""
    if not entry.enabled:
        return None
    return HouseVendor(client, entry.params(), entry.seconds)
