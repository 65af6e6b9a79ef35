"""Who mends a data set that was sold with a job: the house, or somebody outside."""

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from auctune.run.vendors import RepairReport
from auctune.service.zones.auction.repair import Repair


@dataclass(frozen=True, slots=True)
class Errand:
    """One vendor's work for one job. The same one again, after a restart, is the same order.

    Attributes:
        job: id of the job.
        owner: whose job it is.
        repair: what was agreed.
        late: unix time from which on its data are late.
    """

    job: str
    owner: str
    repair: Repair
    late: float

    @property
    def order(self) -> str:
        """Names the order to its vendor, to whom the job's own name says nothing."""
        text = "\n".join((self.job, self.repair.vendor, self.repair.reference))
        return sha256(text.encode()).hexdigest()[:40]


class Mender(Protocol):
    """A vendor that was chosen."""

    @property
    def name(self) -> str:
        """Unique in its zone."""
        ...

    async def mend(self, errand: Errand, source: Path, target: Path) -> RepairReport:
        """Mend `source`; `target` appears whole or not at all, and not without a look at it.

        Raises:
            VendorError: if the vendor does not do what it promised, or not in time.
            InputError: if nothing can be made of the data.
        """
        ...

    async def forget(self, errand: Errand) -> None:
        """Tell the vendor that its copy of the data is needed no more.

        Raises:
            VendorError: if it does not say that it dropped them.
        """
        ...
