"""Whole instances through one mechanism: what simulator and comparisons run."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from auctune.edge.decision import EdgeDecision
from auctune.edge.eris import Eris
from auctune.edge.job import EdgeJob
from auctune.edge.market import EdgeMarket
from auctune.edge.params import ErisParams


class EdgePlayer(Protocol):
    """A mechanism or a baseline, from an empty market to the end."""

    def play(self, market: EdgeMarket, jobs: Sequence[EdgeJob]) -> list[EdgeDecision]:
        """What becomes of the jobs, which come in their order of arrival; in the same order."""
        ...


@dataclass(frozen=True, slots=True)
class ErisPlayer:
    """Eris: every bid is answered in its arrival slot.

    Attributes:
        params: the options.
    """

    params: ErisParams = field(default_factory=ErisParams)

    def play(self, market: EdgeMarket, jobs: Sequence[EdgeJob]) -> list[EdgeDecision]:
        """What becomes of the jobs."""
        eris = Eris(market, self.params)
        return [eris.offer(job, job.arrival) for job in jobs]
