"""What happened to an edge market, for the record: state is the fold of these."""

from dataclasses import dataclass
from typing import TypeAlias

from auctune.edge.decision import EdgeDecision
from auctune.edge.job import EdgeJob
from auctune.edge.plan import EdgePlan


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
        found: the new one; none: there is none, as its owner gave it up or is refunded in full.
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
