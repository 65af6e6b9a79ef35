"""A bid in an edge zone, and the question of a quote."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from auctune.domain import Money
from auctune.edge import EdgeJob, EdgeMenu, Eris
from auctune.service.jobs.idempotency import IdempotencyKey
from auctune.service.jobs.training import Training
from auctune.service.zones.core.zone import unlimited
from auctune.service.zones.edge.site_datasets import SiteDatasets


@dataclass(frozen=True, slots=True)
class EdgeBid:
    """What an owner asks of a zone.

    Attributes:
        job: id of the job that it becomes.
        owner: user id.
        training: what to train.
        facts: of the data.
        bid: what it is worth to its owner.
        deadline: unix time by which it must be done.
        request: as the owner made it, for them to read again; its `sites` are ids of files.
        left: tells what is left of the owner's budget; none: any amount.
        reply: by what the same request is known when it is made again; none: by nothing.
    """

    job: str
    owner: str
    training: Training
    facts: SiteDatasets
    bid: Money
    deadline: float
    request: dict[str, Any] = field(default_factory=dict)
    left: Callable[[], Money | None] = unlimited
    reply: IdempotencyKey | None = None


# The question of a quote: one job and a copy of the market, answered on any thread.
#
# A menu of many sites and chunks takes a second and more. The actor only copies what is sold; bids
# go on meanwhile, and a line that one of them takes is found out when it is accepted.


@dataclass(frozen=True, slots=True)
class MenuRequest:
    """Of one quote.

    Attributes:
        eris: the mechanism as it stood; nobody else's.
        job: as the mechanism is asked about it.
        slot: the current one.
        last: the last slot that is asked about.
    """

    eris: Eris
    job: EdgeJob
    slot: int
    last: int

    def answer(self) -> EdgeMenu:
        """Prices by finish time; what the job bids does not count.

        Raises:
            InputError: if the job does not fit the market.
        """
        lines = self.eris.quote(self.job, self.slot).lines
        return EdgeMenu(self.job.id, tuple(line for line in lines if line.finish <= self.last))
