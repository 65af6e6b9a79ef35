"""Liquid: network cost against the number of workers; Gu et al., TPDS 2022.

At its arrival a job gets the number n of workers with the least

    weight * traffic(n) / B + (1 - weight) / n

(what n workers send in a slot, and what n workers take of one worker's time), as Pang et al. (TMC
2024, section VI-B) fit it: min lambda cost + (1 - lambda) plan, with a plan that "mainly indicates
the number of workers". It keeps that number, and waits, first come first served, while the workers
do not fit.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from auctune.domain import InputError
from auctune.edge.baselines.crew import Floor, Underway
from auctune.edge.baselines.outcome import outcome
from auctune.edge.decision import EdgeDecision
from auctune.edge.job import EdgeJob
from auctune.edge.limits import check_most
from auctune.edge.market import EdgeMarket

# Each number of them is tried, for each job.
_MOST_WORKERS = 10_000


@dataclass(frozen=True, slots=True)
class Liquid:
    """The scheduler.

    Attributes:
        weight: of the network against time.
        most_workers: that a job may have.
    """

    weight: float = 0.5
    most_workers: int = 32

    def __post_init__(self) -> None:
        if not 0 <= self.weight <= 1:
            raise InputError("weight", f"{self.weight!r}", "a share from 0 to 1")
        if self.most_workers < 1:
            raise InputError("most_workers", f"{self.most_workers!r}", "a whole number >= 1")
        check_most(self.most_workers, "most_workers", _MOST_WORKERS)

    def play(self, market: EdgeMarket, jobs: Sequence[EdgeJob]) -> list[EdgeDecision]:
        """What becomes of the jobs, in their order."""
        floor, empty = Floor(market), Floor(market)
        known: dict[str, Underway] = {}
        waiting: list[Underway] = []
        for slot in range(market.slots):
            for job in jobs:
                if job.arrival == slot:
                    known[job.id] = floor.take_up(job, self._number(empty, job))
                    waiting.append(known[job.id])
            for one in sorted(waiting, key=lambda one: not one.parts):
                floor.run(one, slot)
            waiting = [one for one in waiting if not one.is_done]
        return [outcome(known[job.id], job.id) for job in jobs]

    def _number(self, empty: Floor, job: EdgeJob) -> int:
        """Of those that fit an empty market, so that no job waits for ever."""
        market = empty.ledger.market
        best, least = 1, float("inf")
        for count in range(1, self.most_workers + 1):
            part = empty.place(empty.take_up(job, count), job.arrival)
            if part is None:
                continue
            share = part.traffic_mb(job, market) / market.traffic_mb_per_slot
            score = self.weight * share + (1 - self.weight) / count
            if score < least:
                best, least = count, score
        return best
