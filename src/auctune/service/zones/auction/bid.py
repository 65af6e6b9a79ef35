"""A bid as it reaches a zone: what to train, what it is worth, by when."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from auctune.domain import Money
from auctune.domain.data_size import DataSize
from auctune.service.jobs.idempotency import IdempotencyKey
from auctune.service.jobs.training import Training
from auctune.service.zones.appraisal import VendorOffer


def _unlimited() -> None:
    return None


@dataclass(frozen=True, slots=True)
class Bid:
    """What an owner asks of a zone.

    Attributes:
        job: id of the job that it becomes.
        owner: user id.
        training: what to train.
        size: of the data; none: still being looked at.
        bid: what it is worth to its owner.
        deadline: unix time by which it must be done.
        offers: of vendors, if the data need work.
        request: as the owner made it, for them to read again.
        left: tells what is left of the owner's budget; none: any amount.
        reply: by what the same request is known when it is made again; none: by nothing.
    """

    job: str
    owner: str
    training: Training
    size: DataSize
    bid: Money
    deadline: float
    offers: tuple[VendorOffer, ...] = ()
    request: dict[str, Any] = field(default_factory=dict)
    left: Callable[[], Money | None] = _unlimited
    reply: IdempotencyKey | None = None
