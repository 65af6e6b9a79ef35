"""What the owner of open sites and their process say to each other: JSON, one message a line.

| to it | from it |
| --- | --- |
| slot {slot, open, orders} | ready {lost}, alive |
| coming {open, orders} | trained {job, slot, outcome}, broken {job, why} |
| ahead {orders} | torn {job, slot, why, out_of_memory}, slot_done {slot} |
| stop | lost {site}, back {site} |
| | failed {place, found, expected} |

`orders` are `SiteOrder`s: of a slot that has begun, or of the one that comes next, for which actors
may be started: all of them by `coming`, in the room beside a slot that goes on by `ahead`. `open`
are the jobs that are not over: of others the process forgets all. After `slot` it answers for each
job of it, and says slot_done last; what is trained already is told again. A job that is torn
trained nothing of the slot, and `why` says why, for its owner; `out_of_memory`, whether it was for
want of memory.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from auctune.edge.decision import SlotPlan
from auctune.edge.job import EdgeJob
from auctune.edge.market import Site
from auctune.sim.edge.decision_file import parse_slots, slot_json
from auctune.sim.edge.instance_file import edge_job_json, parse_edge_job


@dataclass(frozen=True, slots=True)
class SitesSettings:
    """What the process is started with.

    Attributes:
        folder: an `EdgeFolder`.
        sites: units by resource type, by site.
        ray: address of a cluster that is there; empty: one is started on this machine.
        device: of workers.
    """

    folder: str
    sites: Mapping[str, Mapping[str, float]]
    ray: str = ""
    device: str = "cpu"

    def to_sites(self) -> list[Site]:
        """The sites, in order."""
        return [Site(name, capacity) for name, capacity in self.sites.items()]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingTerms:
    """How a job trains, whatever its plan.

    Attributes:
        model: its name.
        batch_size, micro_batch, learning_rate, momentum, weight_decay, seed: of a `Recipe`.
        files: of labelled images, by site.
        validation: such a file to measure by; none: it is not measured.
        classes: labels are below it.
    """

    model: str
    batch_size: int
    micro_batch: int
    learning_rate: float
    momentum: float
    weight_decay: float
    seed: int
    files: Mapping[str, str]
    validation: str | None
    classes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteOrder:
    """A slot of a job.

    Attributes:
        job: as it was decided on.
        terms: how it trains.
        part: what is trained in the slot, and where.
        taken: chunks of each site that were trained before it.
        steps: of gradient descent before it.
        is_last: whether nothing is left after it: the model is written then.
        until: unix time from which on what is not trained yet comes too late.
    """

    job: EdgeJob
    terms: TrainingTerms
    part: SlotPlan
    taken: Mapping[str, int] = field(default_factory=dict)
    steps: int = 0
    is_last: bool = False
    until: float = math.inf

    def to_record(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "job": edge_job_json(self.job),
            "terms": asdict(self.terms),
            "part": slot_json(self.part),
            "taken": dict(self.taken),
            "steps": self.steps,
            "is_last": self.is_last,
            "until": self.until,
        }

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> "SiteOrder":
        """What `to_record` gave, also by way of JSON."""
        (part,) = parse_slots([record["part"]])
        return cls(
            job=parse_edge_job(record["job"]),
            terms=TrainingTerms(**record["terms"]),
            part=part,
            taken=record["taken"],
            steps=record["steps"],
            is_last=record["is_last"],
            until=record["until"],
        )
