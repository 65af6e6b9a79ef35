"""What the edge answers to a bid, at once and for good; and what it would charge."""

from dataclasses import dataclass

from auctune.domain import Money, Reason
from auctune.domain.money import ZERO
from auctune.edge.plan import EdgePlan


@dataclass(frozen=True, slots=True)
class EdgeDecision:
    """The answer to one bid.

    Attributes:
        job: the job's id.
        admitted: whether it will run.
        payment: what its owner pays; 0 for a rejected one.
        plan: none for a rejected one.
        utility: f of the plan's finish, money; none if rejected.
        surplus: utility less payment, money; none if rejected.
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
        """Its last slot; none if rejected."""
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
