"""AntMan: jobs with guaranteed resources, and opportunistic ones; Xiao et al., OSDI 2020.

A guaranteed job waits, first come first served, until all its workers fit, and then has them until
it is done. Opportunistic jobs share what is left of each slot, be it fewer workers. As Pang et al.
(TMC 2024, section VI-B) fit it, a guaranteed job that has waited long becomes opportunistic. Who
is guaranteed the paper does not say: a share of the jobs, drawn from a seed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from auctune.domain import InputError
from auctune.edge.baselines.crew import Floor, Underway
from auctune.edge.baselines.outcome import outcome
from auctune.edge.decision import EdgeDecision
from auctune.edge.job import EdgeJob
from auctune.edge.market import EdgeMarket
from auctune.numerics.rng import stream


@dataclass(frozen=True, slots=True)
class AntMan:
    """The scheduler.

    Attributes:
        workers: of a guaranteed job; the most of an opportunistic one.
        guaranteed: share of the jobs.
        patience: slots that a guaranteed job waits.
        seed: of the draw of guaranteed jobs.
    """

    workers: int = 8
    guaranteed: float = 0.5
    patience: int = 3
    seed: int = 0

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise InputError("workers", f"{self.workers!r}", "a whole number >= 1")
        if not 0 <= self.guaranteed <= 1:
            raise InputError("guaranteed", f"{self.guaranteed!r}", "a share from 0 to 1")
        for name in ("patience", "seed"):
            if getattr(self, name) < 0:
                raise InputError(name, f"{getattr(self, name)!r}", "a whole number >= 0")

    def play(self, market: EdgeMarket, jobs: Sequence[EdgeJob]) -> list[EdgeDecision]:
        """What becomes of the jobs, in their order."""
        floor = Floor(market)
        known = {job.id: floor.take_up(job, self.workers) for job in jobs}
        sure = {job.id for job in jobs if self._is_guaranteed(job)}
        waiting: list[Underway] = []
        for slot in range(market.slots):
            waiting += [known[job.id] for job in jobs if job.arrival == slot]
            # Who runs already keeps its workers.
            for one in sorted(waiting, key=lambda one: not one.parts):
                if one.job.id in sure and not floor.run(one, slot) and not one.parts:
                    sure -= {one.job.id} if slot - one.job.arrival >= self.patience else set()
            for one in waiting:
                if one.job.id not in sure:
                    floor.run(one, slot, fewer=True)
            waiting = [one for one in waiting if not one.is_done]
        return [outcome(known[job.id], job.id) for job in jobs]

    def _is_guaranteed(self, job: EdgeJob) -> bool:
        return bool(stream(self.seed, "antman", job.id).random() < self.guaranteed)
