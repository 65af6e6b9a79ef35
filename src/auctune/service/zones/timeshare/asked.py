"""What an owner asks of a timeshare zone, as it reaches the desk."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from auctune.domain import Money
from auctune.domain.data_size import DataSize
from auctune.service.jobs.idempotency import IdempotencyKey
from auctune.service.jobs.training import Training
from auctune.service.zones.metered.estimate import Estimate


@dataclass(frozen=True, slots=True)
class Estimated:
    """What an estimate was made of.

    Attributes:
        seq: of the newest event that the zone knew.
        first_unit: in which the job could begin.
    """

    seq: int
    first_unit: int


def _unlimited() -> None:
    return None


@dataclass(frozen=True, slots=True)
class Asked:
    """A job.

    Attributes:
        job: its id.
        owner: user id.
        training: what to train.
        size: of the data.
        target_loss: that it is to reach.
        cap: the most that its owner pays.
        deadline_unit: by whose beginning it must be done.
        estimate: what it is likely to come to.
        estimated: of what that was made.
        request: as the owner made it, for them to read again.
        left: tells what is left of the owner's budget; none: any amount.
        reply: by what the same request is known when it is made again; none: by nothing.
    """

    job: str
    owner: str
    training: Training
    size: DataSize
    target_loss: float
    cap: Money
    deadline_unit: int
    estimate: Estimate
    estimated: Estimated
    request: dict[str, Any] = field(default_factory=dict)
    left: Callable[[], Money | None] = _unlimited
    reply: IdempotencyKey | None = None
