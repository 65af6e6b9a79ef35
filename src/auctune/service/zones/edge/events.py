"""Events of an edge zone."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from auctune.domain import Money
from auctune.engine.edge.records import DecisionField, JobField, PlanField
from auctune.service.storage.events import Record
from auctune.service.zones.core.events import (
    EventData,
    JobDecided,
    JobPaused,
    JobResumed,
    JobTrained,
)
from auctune.service.zones.core.job import GivenUp
from auctune.service.zones.edge.site_datasets import SiteDatasets


class EdgeEventType(StrEnum):
    """Types of events of edge zones only."""

    RELEASED = "job.released"
    REPLANNED = "job.replanned"
    SITE_LOST = "site.lost"
    SITE_RETURNED = "site.returned"


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeDecided(JobDecided):
    """A bid was decided on: `EdgeOffered` of the mechanism.

    Attributes:
        size: rows and mean_tokens of the data.
        facts: of the data.
        job: as it was offered.
        deadline_slot: the last slot in which it is in time.
        decision: admitted, reason, payment, price, value, surplus, finish.
        answer: of the mechanism.
        line: finish of the accepted line of a menu, or None.
        earliest: slot by whose end a job could finish that misses its deadline, or None.
        budget_remaining: remaining budget of the owner, if the price was above it.
    """

    size: Record
    facts: SiteDatasets
    job: JobField
    deadline_slot: int
    decision: Record
    answer: DecisionField
    line: int | None
    earliest: int | None
    budget_remaining: Money | None

    @property
    def is_admitted(self) -> bool:
        return self.answer.admitted


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeTrained(JobTrained):
    """A slot of a job was trained.

    Attributes:
        outcome: steps, samples and traffic of the slot.
    """

    outcome: Record


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanReleased(EventData):
    """A job gave up its plan after the slot of the event: `EdgeReplanned` of the mechanism.

    Attributes:
        failed_slots: earlier slots that trained nothing.
        why: for the owner.
    """

    type = EdgeEventType.RELEASED

    failed_slots: list[int]
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanReplaced(EventData):
    """A job got a plan for its remaining data: `EdgeReplanned` of the mechanism.

    Attributes:
        found: the plan, from the next slot on.
        why: for the owner.
        chunks_per_worker_slot: of the job in this plan, as its sites are slower than sold; None, as
            in events of an earlier release: as it was sold. None is not recorded.
    """

    type = EdgeEventType.REPLANNED

    found: PlanField
    why: str
    chunks_per_worker_slot: Annotated[float | None, Field(exclude_if=lambda rate: rate is None)] = (
        None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgePaused(JobPaused):
    """A job was paused, and gave up its plan.

    Attributes:
        given_up_for: what its slots were worth, or None.
    """

    given_up_for: GivenUp | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeResumed(JobResumed):
    """A job was resumed with a new plan.

    Attributes:
        found: the plan, from the next slot on.
    """

    found: PlanField


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteDown(EventData):
    """A site was lost: `SiteLost` of the mechanism.

    Attributes:
        site: id.
        why: for operators.
    """

    type = EdgeEventType.SITE_LOST

    site: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteUp(EventData):
    """A lost site is back: `SiteReturned` of the mechanism.

    Attributes:
        site: id.
    """

    type = EdgeEventType.SITE_RETURNED

    site: str
