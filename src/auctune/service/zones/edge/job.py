"""Jobs of an edge zone: event types and the open job.

| kind | body | to the mechanism |
| --- | --- | --- |
| zone.opened | base, slots, sites, traffic_mb_per_slot, chunk_mb, pricing | - |
| slot.began | - | EdgeAdvanced |
| job.decided | facts, job, last, answer, line, earliest, budget_left | EdgeOffered |
| job.trained | outcome | - |
| job.released | torn, why | EdgeReplanned |
| job.replanned | found, why | EdgeReplanned |
| job.paused | given_up_for | EdgeReplanned |
| job.cancelled, job.failed | - | EdgeReplanned |
| job.resumed | found | EdgeReplanned |
| site.lost | site, why | SiteLost |
| site.returned | site | SiteReturned |

`job` is the bid as the mechanism was offered it, `last` the last slot by which it is in time, and
`answer` what it was told. Whoever gives up a plan gives up what lies behind the slot of the event;
`torn` are slots before that which trained nothing. `found` is a plan for the rest, from the next
slot on. A line is the finish of the line that was accepted.

State is the fold over them; see `auctune.service.zones.edge.state`.
"""

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from auctune.edge import EdgeCommitment, EdgeJob, EdgePlan, SlotPlan
from auctune.run.edge.plain import job_record, plan_record, read_job, read_plan
from auctune.service.jobs.training import Training
from auctune.service.zones.core.job import Phase, Progress
from auctune.service.zones.core.zone import GivenUp
from auctune.service.zones.edge.site_datasets import SiteDatasets


class EdgeEventType(StrEnum):
    """What happened."""

    RELEASED = "job.released"
    REPLANNED = "job.replanned"
    SITE_LOST = "site.lost"
    SITE_RETURNED = "site.returned"


# The open job: what was promised, and its progress.


@dataclass
class EdgeJobState:
    """One admitted job.

    Attributes:
        id: the job's.
        seq: of the first event about it.
        owner: user id.
        training: what it trains.
        facts: of its data.
        created_at: unix time.
        request: as its owner made it.
        job: as the mechanism was offered it.
        last: the last slot in which it is in time.
        decision: on record.
        plan: slots that are trained, and those to come.
        trained: slots whose training is on record.
        steps: of gradient descent so far.
        torn: how many slots came to nothing.
        crossed_mb: that crossed sites so far, as counted.
        phase: where it stands.
        progress: of its training.
        notes: what its owner should know.
        out_of_memory: slots lost to too little memory since it trained last.
        given_up: when it was paused; `None` before.
    """

    id: str
    seq: int
    owner: str
    training: Training
    facts: SiteDatasets
    created_at: float
    request: dict[str, Any]
    job: EdgeJob
    deadline_slot: int
    decision: dict[str, Any]
    plan: EdgePlan
    trained: list[int] = field(default_factory=list)
    steps: int = 0
    failed_slots: int = 0
    transferred_mb: float = 0.0
    phase: Phase = Phase.PLANNED
    progress: Progress = field(default_factory=Progress)
    notes: list[str] = field(default_factory=list)
    out_of_memory: list[int] = field(default_factory=list)
    given_up: GivenUp | None = None

    @property
    def total_rows(self) -> int:
        """Samples to train, over all epochs."""
        return self.facts.total * self.training.epochs

    @property
    def chunks_left(self) -> int:
        """Chunks that no slot of the plan trains, or has trained."""
        return self.job.num_chunks - sum(part.chunks for part in self.plan.slots)

    @property
    def is_trained(self) -> bool:
        """Whether all of its data are."""
        return not self.chunks_left and {part.slot for part in self.plan.slots} <= set(self.trained)

    def slot_plan(self, slot: int) -> SlotPlan | None:
        """What it is to train in a slot; none if nothing is."""
        if slot in self.trained:
            return None
        return next((part for part in self.plan.slots if part.slot == slot), None)

    def missed_slots(self, slot: int) -> list[int]:
        """Slots before one that were to train, and did not."""
        return [part.slot for part in self.plan.before(slot).slots if part.slot not in self.trained]

    def consumed_chunks(self, slot: int) -> dict[str, int]:
        """Chunks by site that slots before one have trained."""
        taken: Counter[str] = Counter()
        for part in self.plan.before(slot).slots:
            for move in part.moves:
                taken[move.origin] += move.chunks
        return dict(taken)

    def uses(self, sites: set[str], slot: int) -> bool:
        """Whether it is to train at one of these sites, from a slot on."""
        parts = self.plan.since(slot).slots
        return any({part.server, *part.workers} & sites for part in parts)

    def release(self, slot: int, torn: list[int]) -> None:
        """Give up what lies behind a slot, and slots before that came to nothing."""
        kept = self.plan.before(slot + 1).slots
        self.plan = EdgePlan(tuple(part for part in kept if part.slot not in torn))
        self.failed_slots += len(torn)

    def commitment(self) -> EdgeCommitment:
        """It and its plan, as the mechanism knows them."""
        return EdgeCommitment(self.job, self.plan)

    def to_record(self) -> dict[str, Any]:
        """As plain values."""
        return {
            **vars(self),
            "training": self.training.to_record(),
            "facts": self.facts.to_record(),
            "job": job_record(self.job),
            "plan": plan_record(self.plan),
            "trained": list(self.trained),
            "phase": self.phase.value,
            "progress": self.progress.to_record(),
            "notes": list(self.notes),
            "out_of_memory": list(self.out_of_memory),
            "given_up": None if self.given_up is None else self.given_up.to_record(),
        }

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> "EdgeJobState":
        """What `to_record` gave, also by way of JSON."""
        return cls(
            **{
                **record,
                "training": Training.from_record(record["training"]),
                "facts": SiteDatasets.from_record(record["facts"]),
                "job": read_job(record["job"]),
                "plan": read_plan(record["plan"]),
                "phase": Phase(record["phase"]),
                "progress": Progress(**record["progress"]),
                "given_up": GivenUp.from_record(record["given_up"]),
            }
        )
