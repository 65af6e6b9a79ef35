"""A period of a market as it was recorded: what came from outside, and what was decided.

It says which bids were made, which plans were changed and why, and which nodes were lost, in the
order in which it happened; so that the same or another mechanism can go through it again.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from auctune.domain.cluster import Cluster
from auctune.domain.decision import Decision
from auctune.domain.events import (
    NodeLost,
    NodeReturned,
    PricesLearned,
    Released,
    Replanned,
    SlotAdvanced,
)
from auctune.domain.menu import MenuLine
from auctune.domain.task import Task


@dataclass(frozen=True, slots=True)
class BidMade:
    """A bid and its answer.

    Attributes:
        task: what was bid.
        decision: the answer.
        now: the slot.
        line: of an earlier menu, which it accepted; none: it was offered.
    """

    task: Task
    decision: Decision
    now: int
    line: MenuLine | None


class Why(StrEnum):
    """Why a plan was changed."""

    CANCELLED = "cancelled"
    PAUSED = "paused"
    RESUMED = "resumed"
    REPLANNED = "replanned"
    RELEASED = "released"


@dataclass(frozen=True, slots=True)
class PlanChanged:
    """A task's plan was changed after it was sold.

    Attributes:
        event: as the mechanism was told; none: nothing was left to give up.
        task: its id.
        why: by whom or by what.
        now: the slot.
        work: samples that were planned anew from `first` on; none: nothing was planned.
        first: the first slot that a new plan could have.
    """

    event: Released | Replanned | None
    task: str
    why: Why
    now: int
    work: float | None = None
    first: int = 0


@dataclass(frozen=True, slots=True)
class Refunded:
    """A task was not done, and its payment went back.

    Attributes:
        task: its id.
        now: the slot.
    """

    task: str
    now: int


Happened = BidMade | PlanChanged | Refunded | SlotAdvanced | PricesLearned | NodeLost | NodeReturned


@dataclass(frozen=True, slots=True)
class Difference:
    """Something came out otherwise than recorded.

    Attributes:
        what: a decision, a lesson, a plan, or a field of an event.
        name: of the task or job, or the slot.
        recorded, found: both.
    """

    what: str
    name: str
    recorded: Any
    found: Any


@dataclass(frozen=True, slots=True)
class RecordedPeriod:
    """What happened in a market, from its first slot on.

    Attributes:
        cluster: the supply, its first window.
        mechanism, settings: that decided, as the registry knows them.
        first_slot: the first slot of the period; what happened before is how it began.
        happened: in its order, from the market's beginning or a moment that is known; may be gone
            through again and again.
    """

    cluster: Cluster
    mechanism: str
    settings: Mapping[str, str]
    first_slot: int
    happened: Iterable[Happened]
