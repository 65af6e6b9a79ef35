"""Jobs of an edge zone."""

from dataclasses import dataclass, field, replace
from typing import Any

from auctune.domain import Money
from auctune.edge import EdgeCommitment, EdgePlan, SlotPlan
from auctune.engine.edge.records import JobField, PlanField
from auctune.service.zones.core.job import PrepaidJob
from auctune.service.zones.edge.site_datasets import SiteDatasets


@dataclass(kw_only=True)
class EdgeJobState(PrepaidJob):
    """An admitted job of an edge zone.

    Attributes:
        facts: of its data.
        job: as it was offered to the mechanism.
        deadline_slot: the last slot in which it is in time.
        decision: as recorded.
        plan: slots that are trained, and those to come.
        trained: slots whose results are recorded.
        steps: of the optimizer so far.
        failed_slots: number of slots without a result.
        transferred_mb: between sites so far, as measured.
    """

    facts: SiteDatasets
    job: JobField
    deadline_slot: int
    decision: dict[str, Any]
    plan: PlanField
    trained: list[int] = field(default_factory=list)
    steps: int = 0
    failed_slots: int = 0
    transferred_mb: float = 0.0

    @property
    def payment(self) -> Money:
        return Money(self.decision["payment"])

    @property
    def total_rows(self) -> int:
        """Rows to train, over all epochs."""
        return self.facts.size.rows * self.training.epochs

    @property
    def chunks_left(self) -> int:
        """Chunks that are in no slot of the plan."""
        return self.job.num_chunks - sum(part.chunks for part in self.plan.slots)

    @property
    def is_trained(self) -> bool:
        """Return whether all of its data are trained."""
        return not self.chunks_left and {part.slot for part in self.plan.slots} <= set(self.trained)

    def slot_plan(self, slot: int) -> SlotPlan | None:
        """Return what it is to train in a slot, or None."""
        if slot in self.trained:
            return None
        return self.plan.at(slot)

    def missed_slots(self, slot: int) -> list[int]:
        """Return the planned slots before a slot that have no result."""
        return [part.slot for part in self.plan.before(slot).slots if part.slot not in self.trained]

    def uses(self, sites: set[str], slot: int) -> bool:
        """Return whether its plan uses one of these sites from a slot on."""
        parts = self.plan.since(slot).slots
        return any({part.server, *part.workers} & sites for part in parts)

    def release(self, slot: int, failed: list[int]) -> None:
        """Give up the plan after a slot, and earlier slots that have failed."""
        kept = self.plan.before(slot + 1).slots
        self.plan = EdgePlan(tuple(part for part in kept if part.slot not in failed))
        self.failed_slots += len(failed)

    def commitment(self, rate: float | None = None) -> EdgeCommitment:
        """Return the job and its plan for the mechanism.

        Args:
            rate: chunks that a worker passes through once in a slot, or None: as it was sold.
        """
        job = self.job if rate is None else replace(self.job, chunks_per_worker_slot=rate)
        return EdgeCommitment(job, self.plan)

    def is_planned_for(self, rate: float, slot: int) -> bool:
        """Return whether workers of this rate are enough for the plan from a slot on."""
        job = self.commitment(rate).job
        return all(
            part.workers.get(site, 0) >= job.workers_for(chunks)
            for part in self.plan.since(slot).slots
            for site, chunks in part.chunks_by_site.items()
        )
