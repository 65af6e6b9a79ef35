"""What a timeshare zone knows when it is asked what a job would come to."""

from dataclasses import dataclass

from auctune.domain import Money
from auctune.service.zones.timeshare.curve import Curve
from auctune.service.zones.timeshare.open_job import Phase, TargetJob
from auctune.service.zones.timeshare.past_job import LEAST_POINTS, Features, PastJob
from auctune.service.zones.timeshare.state import TimeshareState


@dataclass(frozen=True, slots=True)
class Rival:
    """A job that is to share the pool.

    Attributes:
        deadline_unit: by whose beginning it must be done.
        target_loss: that it is to reach.
        curve: of its losses so far.
        money: that it may still cost.
    """

    deadline_unit: int
    target_loss: float
    curve: Curve
    money: Money


@dataclass(frozen=True, slots=True)
class Evidence:
    """Nothing of it changes when the zone goes on.

    Attributes:
        seen: jobs whose losses say something of others, those that are open included.
        rivals: jobs that share the pool.
    """

    history: tuple[PastJob, ...]
    rivals: tuple[Rival, ...]


def evidence_of(state: TimeshareState) -> Evidence:
    """What a zone knows now."""
    at_work = [job for job in state.jobs.values() if job.phase in (Phase.ADMITTED, Phase.LEARNING)]
    open_ = (
        PastJob(job.id, job.owner, Features.of(job.training, job.size), _copy(job.curve))
        for job in state.jobs.values()
        if len(job.curve.points) >= LEAST_POINTS
    )
    return Evidence((*state.past, *open_), tuple(_rival(job) for job in at_work))


def _rival(job: TargetJob) -> Rival:
    return Rival(job.deadline_unit, job.target_loss, _copy(job.curve), job.meter.remaining)


def _copy(curve: Curve) -> Curve:
    return Curve(list(curve.points))
