"""A bid as it reaches an edge zone: what to train on the data of which sites, for how much."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from auctune.domain import Money
from auctune.service.jobs.idempotency import IdempotencyKey
from auctune.service.jobs.training import Training
from auctune.service.zones.edge.facts import SiteFacts


def _unlimited() -> None:
    return None


@dataclass(frozen=True, slots=True)
class EdgeBid:
    """What an owner asks of a zone.

    Attributes:
        job: id of the job that it becomes.
        owner: user id.
        training: what to train.
        facts: of the data.
        bid: what it is worth to its owner.
        deadline: unix time by which it must be done.
        request: as the owner made it, for them to read again; its `sites` are ids of files.
        left: tells what is left of the owner's budget; none: any amount.
        reply: by what the same request is known when it is made again; none: by nothing.
    """

    job: str
    owner: str
    training: Training
    facts: SiteFacts
    bid: Money
    deadline: float
    request: dict[str, Any] = field(default_factory=dict)
    left: Callable[[], Money | None] = _unlimited
    reply: IdempotencyKey | None = None
