"""What those who watch a run are told of its threads: when each will be done, and if in time."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from auctune.run.timeshare.state import PoolState, UnitRecord
from auctune.timeshare.estimators.estimator import Estimator
from auctune.timeshare.thread import LearningThread


class Verdict(StrEnum):
    """How it stands with a thread."""

    WAITING = "not begun"
    LEARNING = "learning"
    IN_TIME = "in time"
    LATE = "late"
    RESTING = "resting"
    HOPELESS = "out of reach"
    ASTRAY = "no number"
    DONE = "done"
    MISSED = "missed"


@dataclass(frozen=True, slots=True)
class ThreadView:
    """A thread after a unit.

    Attributes:
        name: of the thread.
        share: of the unit.
        batches: learned in all.
        loss: of the last unit in which it learned; none before.
        threshold: eps.
        deadline: d.
        finish: when it was done, or will be if its share stays; none if nobody knows.
        verdict: how it stands.
    """

    name: str
    share: float
    batches: int
    loss: float | None
    threshold: float
    deadline: int
    finish: float | None
    verdict: Verdict


class Foresight:
    """Follows a run.

    Args:
        threads: of the bundle.
        estimator: foretells needs.
    """

    def __init__(self, threads: Sequence[LearningThread], estimator: Estimator) -> None:
        self._threads = threads
        self._bank = estimator.start_bank(len(threads))
        self._losses: list[float | None] = [None] * len(threads)

    def learn(self, state: PoolState, unit: UnitRecord) -> None:
        """Take in a unit; `state` is after it."""
        fresh = unit.batches > 0
        self._bank.observe(state.samples, unit.losses, fresh)
        for thread in np.flatnonzero(fresh):
            self._losses[thread] = float(unit.losses[thread])

    def views(self, state: PoolState, unit: UnitRecord) -> list[ThreadView]:
        """All threads after a unit that was learned."""
        thresholds = np.array([thread.threshold for thread in self._threads])
        needs = self._bank.needs(thresholds).batches
        return [
            self._view(state, unit, index, float(needs[index]))
            for index in range(len(self._threads))
        ]

    def _view(self, state: PoolState, unit: UnitRecord, index: int, need: float) -> ThreadView:
        thread, share = self._threads[index], float(unit.shares[index])
        finish = _finish(state, unit, index, need)
        return ThreadView(
            name=thread.id,
            share=share,
            batches=int(state.samples[index]),
            loss=self._losses[index],
            threshold=thread.threshold,
            deadline=thread.deadline,
            finish=finish,
            verdict=self._verdict(state, unit, index, finish, need),
        )

    def _verdict(
        self, state: PoolState, unit: UnitRecord, index: int, finish: float | None, need: float
    ) -> Verdict:
        thread, loss = self._threads[index], self._losses[index]
        if state.done[index]:
            return Verdict.DONE
        if unit.time + 1 >= thread.deadline:
            return Verdict.MISSED
        if loss is None:
            return Verdict.WAITING if unit.time < thread.start else Verdict.LEARNING
        if not math.isfinite(loss):
            return Verdict.ASTRAY
        if math.isinf(need):
            return Verdict.HOPELESS
        if finish is None:
            return Verdict.RESTING
        return Verdict.IN_TIME if finish <= thread.deadline else Verdict.LATE


def _finish(state: PoolState, unit: UnitRecord, index: int, need: float) -> float | None:
    if state.done[index]:
        return float(state.finish[index])
    pace = unit.shares[index] * state.rates[index]
    if not pace > 0 or math.isinf(need):
        return None
    return unit.time + 1 + need / float(pace)
