"""Plans, decisions and events of an edge market, and the protocol of its mechanism."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from auctune.domain import Money, Reason
from auctune.domain.money import ZERO
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

    @property
    def chunks_by_site(self) -> Counter[str]:
        """Chunks by the site that trains them."""
        found: Counter[str] = Counter()
        for move in self.moves:
            found[move.destination] += move.chunks
        return found

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
        return self.slots[-1].slot

    def before(self, slot: int) -> "EdgePlan":
        """Return what of it lies before a slot."""
        return EdgePlan(tuple(part for part in self.slots if part.slot < slot))

    def since(self, slot: int) -> "EdgePlan":
        """Return what of it lies at a slot or after."""
        return EdgePlan(tuple(part for part in self.slots if part.slot >= slot))

    def at(self, slot: int) -> SlotPlan | None:
        """Return what runs in a slot, or None."""
        return next((part for part in self.slots if part.slot == slot), None)

    def chunks_before(self, slot: int) -> dict[str, int]:
        """Return the chunks, by origin, of the slots before one."""
        taken: Counter[str] = Counter()
        for part in self.before(slot).slots:
            for move in part.moves:
                taken[move.origin] += move.chunks
        return dict(taken)


@dataclass(frozen=True, slots=True)
class EdgeDecision:
    """The answer to one bid.

    Attributes:
        job: the job's id.
        admitted: whether it will run.
        payment: what its owner pays; 0 for a rejected one.
        plan: none for a rejected one.
        utility: f of the plan's finish, money; None if rejected.
        surplus: utility less payment, money; None if rejected.
        reason: why it was rejected; none for an admitted one.
    """

    job: str
    admitted: bool
    payment: Money = ZERO
    plan: EdgePlan | None = None
    utility: float | None = None
    surplus: float | None = None
    reason: Reason | None = None

    def __post_init__(self) -> None:
        if self.admitted == (self.plan is None):
            raise ValueError(f"decision for {self.job!r}: a plan if and only if admitted")
        if self.admitted != (self.reason is None):
            raise ValueError(f"decision for {self.job!r}: a reason if and only if rejected")

    @property
    def finish(self) -> int | None:
        """Its last slot; None if rejected."""
        return None if self.plan is None else self.plan.finish


@dataclass(frozen=True, slots=True)
class EdgeMenuLine:
    """One choice: finished by the end of slot `finish` for `price`, by this plan."""

    finish: int
    price: Money
    plan: EdgePlan


@dataclass(frozen=True, slots=True)
class EdgeMenu:
    """The choices of one job, earliest first, each cheaper than the one before.

    It holds nothing: it is true for the market's state when it was made. No f is in it.
    """

    job: str
    lines: tuple[EdgeMenuLine, ...]


@dataclass(frozen=True, slots=True)
class EdgeOffered:
    """A bid was answered in slot `now`."""

    job: EdgeJob
    decision: EdgeDecision
    now: int


@dataclass(frozen=True, slots=True)
class EdgeAdvanced:
    """The market's window begins with slot `now`: those before have passed, and others entered."""

    now: int


@dataclass(frozen=True, slots=True)
class SiteLost:
    """From slot `now` on a site runs nothing; what is stored there can still be read."""

    site: str
    now: int


@dataclass(frozen=True, slots=True)
class SiteReturned:
    """From slot `now` on a site is there again, empty."""

    site: str
    now: int


@dataclass(frozen=True, slots=True)
class EdgeReplanned:
    """A job goes on by another plan, or not at all.

    Attributes:
        job: which.
        now: the slot from which the old plan is void.
        given_up: what was left of the old plan.
        found: the new one; None: there is none, as its owner gave it up or is refunded in full.
    """

    job: EdgeJob
    now: int
    given_up: EdgePlan
    found: EdgePlan | None


EdgeEvent: TypeAlias = EdgeOffered | EdgeAdvanced | SiteLost | SiteReturned | EdgeReplanned


@dataclass(frozen=True, slots=True)
class EdgeCommitment:
    """An admitted job and the plan that it has now."""

    job: EdgeJob
    plan: EdgePlan
