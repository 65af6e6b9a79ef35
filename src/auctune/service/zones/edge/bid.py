"""A bid in an edge zone, and the request for a menu."""

from dataclasses import dataclass

from auctune.domain import Money
from auctune.edge import EdgeJob, EdgeMenu, Eris
from auctune.service.jobs.training import ZoneBid
from auctune.service.zones.edge.site_datasets import SiteDatasets


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeBid(ZoneBid):
    """Bid in an edge zone; `request["sites"]` holds ids of files by site.

    Attributes:
        facts: data sets at sites.
        bid: amount of the bid.
        deadline: unix time.
    """

    facts: SiteDatasets
    bid: Money
    deadline: float


@dataclass(frozen=True, slots=True)
class MenuRequest:
    """A job and a copy of the market, from which a menu can be computed on any thread.

    Bids are decided on meanwhile; a line that is taken by one of them cannot be accepted any more.

    Attributes:
        eris: copy of the mechanism.
        job: as the mechanism sees it.
        slot: current slot.
        last: last slot that a plan may use.
    """

    eris: Eris
    job: EdgeJob
    slot: int
    last: int

    def answer(self) -> EdgeMenu:
        """Return prices by finish time; the job's bid does not count.

        Raises:
            InputError: if the job does not fit the market.
        """
        lines = self.eris.quote(self.job, self.slot).lines
        return EdgeMenu(self.job.id, tuple(line for line in lines if line.finish <= self.last))
