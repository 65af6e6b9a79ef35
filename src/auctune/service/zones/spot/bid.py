"""A bid in a spot zone: what to train, its value and its cap."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from auctune.domain import Money
from auctune.domain.data_size import DataSize
from auctune.service.jobs.idempotency import IdempotencyKey
from auctune.service.jobs.terms import JobValue
from auctune.service.jobs.training import Training
from auctune.service.zones.core.metered import Estimate
from auctune.service.zones.core.zone import unlimited
from auctune.service.zones.spot.job import Pace


@dataclass(frozen=True, slots=True)
class EstimateInputs:
    """What an estimate was made of, where a slot may have begun since.

    Attributes:
        slot: the newest one then.
        first: the job's first slot, as it was then.
        deadline, hard_factor: of its terms.
        start_seconds, speeds: of the zone's `Pace`, by which the job is planned too.
    """

    slot: int
    first: int
    deadline: int
    hard_factor: float
    start_seconds: float
    speeds: tuple[float, ...]

    @property
    def pace(self) -> Pace:
        """The zone's pace then."""
        return Pace(self.start_seconds, self.speeds)


@dataclass(frozen=True, slots=True)
class SpotBid:
    """What an owner asks of a zone.

    Attributes:
        job: id of the job that it becomes.
        owner: user id.
        training: what to train.
        size: of the data.
        worth: of the job, by when it is done.
        cap: the most that may be charged.
        estimate: of what it comes to, made just before.
        estimated: of what that was made.
        request: as the owner made it, for them to read again.
        left: tells what is left of the owner's budget; none: any amount.
        reply: by what the same request is known when it is made again; none: by nothing.
    """

    job: str
    owner: str
    training: Training
    size: DataSize
    worth: JobValue
    cap: Money
    estimate: Estimate
    estimated: EstimateInputs
    request: dict[str, Any] = field(default_factory=dict)
    left: Callable[[], Money | None] = unlimited
    reply: IdempotencyKey | None = None
