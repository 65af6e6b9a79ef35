"""Tiresias: two-dimensional least attained service, preemptive; Gu et al., NSDI 2019.

In every slot the jobs with the least attained service (workers times slots) go first, in queues
that a job leaves for the next one when its service passes a threshold; within a queue the earlier
arrival goes first. Each has a fixed number of workers. As Pang et al. (TMC 2024, section VI-B) fit
it: a job whose payoff turns negative, since what it has cost exceeds what it would still be worth,
is dropped.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from auctune.domain import InputError
from auctune.edge.baselines.crew import Floor, Underway
from auctune.edge.baselines.outcome import outcome
from auctune.edge.decision import EdgeDecision
from auctune.edge.job import EdgeJob
from auctune.edge.market import EdgeMarket


@dataclass(frozen=True, slots=True)
class Tiresias:
    """The scheduler.

    Attributes:
        workers: of every job.
        queue: worker-slots of service by which a job comes into the next queue; double for each
            one after it.
    """

    workers: int = 8
    queue: int = 16

    def __post_init__(self) -> None:
        for name in ("workers", "queue"):
            if getattr(self, name) < 1:
                raise InputError(name, f"{getattr(self, name)!r}", "a whole number >= 1")

    def play(self, market: EdgeMarket, jobs: Sequence[EdgeJob]) -> list[EdgeDecision]:
        """What becomes of the jobs, in their order."""
        floor = Floor(market)
        known = {job.id: floor.take_up(job, self.workers) for job in jobs}
        waiting: list[Underway] = []
        for slot in range(market.slots):
            waiting += [known[job.id] for job in jobs if job.arrival == slot]
            waiting.sort(key=lambda one: (self._queue(one), one.job.arrival, one.job.id))
            for one in waiting:
                floor.run(one, slot)
            waiting = [
                one for one in waiting if not one.is_done and one.cost <= one.job.value(slot + 1)
            ]
        return [outcome(_unless_a_loss(known[job.id]), job.id) for job in jobs]

    def _queue(self, one: Underway) -> int:
        return (one.served // self.queue).bit_length()


def _unless_a_loss(one: Underway) -> Underway | None:
    return one if one.is_done and one.cost <= one.job.value(one.plan.finish) else None
