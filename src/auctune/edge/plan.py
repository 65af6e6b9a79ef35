"""What an admitted job was promised: for every slot its workers, its server and its moves."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from auctune.edge.job import EdgeJob
from auctune.edge.market import EdgeMarket


class Move(NamedTuple):
    """h^{rr'}: chunks of `origin` that are trained at `destination`; where they are the same site
    nothing crosses."""

    origin: str
    destination: str
    chunks: int


@dataclass(frozen=True, slots=True)
class SlotPlan:
    """One slot of a plan.

    Attributes:
        slot: which.
        workers: g^r, by site.
        server: the site of the parameter server (z^r = 1).
        moves: h^{rr'}, all that is trained in the slot.
    """

    slot: int
    workers: Mapping[str, int]
    server: str
    moves: tuple[Move, ...]

    @property
    def chunks(self) -> int:
        """Chunks that are trained in this slot."""
        return sum(move.chunks for move in self.moves)

    def traffic_mb(self, job: EdgeJob, market: EdgeMarket) -> float:
        """psi(t): chunks that cross sites, and parameters of workers away from the server."""
        moved = sum(move.chunks for move in self.moves if move.origin != move.destination)
        away = sum(count for site, count in self.workers.items() if site != self.server)
        return market.chunk_mb * moved + job.parameter_mb * away


@dataclass(frozen=True, slots=True)
class EdgePlan:
    """The slots in which a job runs, rising; in others it has neither workers nor a server."""

    slots: tuple[SlotPlan, ...]

    @property
    def finish(self) -> int:
        """Its last slot (2f)."""
        return self.slots[-1].slot

    def before(self, slot: int) -> "EdgePlan":
        """What of it lies before a slot."""
        return EdgePlan(tuple(part for part in self.slots if part.slot < slot))

    def since(self, slot: int) -> "EdgePlan":
        """What of it lies at a slot or after."""
        return EdgePlan(tuple(part for part in self.slots if part.slot >= slot))
