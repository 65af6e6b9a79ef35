"""What a coordinator works with."""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from auctune.run.event_log import EventLog
from auctune.run.spot.clock import SlotClock
from auctune.run.spot.crew import Crew
from auctune.run.spot.foresight import Foresee
from auctune.run.spot.listener import SpotListener
from auctune.run.spot.provider import Provider
from auctune.spot.job import SpotJob
from auctune.spot.policy import Policy
from auctune.train.data_parallel.trainer import ElasticTrainer


def never() -> bool:
    """It is not to stop."""
    return False


@dataclass(frozen=True, slots=True)
class Parts:
    """All of it.

    Attributes:
        job: bounds, deadline, workload.
        policy: what to hold.
        foresee: makes the policy's forecasts.
        trainer: state of the training.
        crew: the workers.
        provider: of instances.
        clock: of the run.
        journal: open and begun.
        listener: told of everything.
        saved_every: seconds between checkpoints within a slot.
        cap: the most that may be paid.
        is_stopped: tells whether the run is to stop.
    """

    job: SpotJob
    policy: Policy
    foresee: Foresee
    trainer: ElasticTrainer
    crew: Crew
    provider: Provider
    clock: SlotClock
    journal: EventLog
    listener: SpotListener
    saved_every: float
    cap: float = inf
    is_stopped: Callable[[], bool] = never
