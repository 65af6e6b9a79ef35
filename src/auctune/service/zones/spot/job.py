"""Jobs of a spot zone, and the pace learned from them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Annotated, Any

from pydantic import Field

from auctune.domain.data_size import DataSize
from auctune.engine.spot.job_config import SpotJobSpec
from auctune.service.zones.core.job import MeteredJob
from auctune.service.zones.core.speed import MAX_SHORTFALL

CAP_REACHED = "cap_reached"
"""Code of the failure of a job that its cap ended."""


KEPT_JOBS = 20
"""Number of newest jobs whose measurements are kept: machines and their load change."""

_START_LEVEL = 0.9


@dataclass(frozen=True, slots=True)
class Pace:
    """Expected start time and speed of the next job.

    Attributes:
        start_seconds: from the admission of a job until its process can train.
        speeds: ratio of the measured work of instances to that of their profile; one value for
            each of the newest jobs, the newest first.
    """

    start_seconds: float
    speeds: tuple[float, ...]

    @property
    def speed(self) -> float:
        """Speed with which a job is planned: the median."""
        return median(self.speeds)


def learned_pace(starts: Sequence[float], speeds: Sequence[float], prior_start: float) -> Pace:
    """Return the pace learned from past starts and speeds, the oldest first.

    A plan begins after a start that 9 of 10 processes kept, as each slot missed is lost.
    """
    start = prior_start
    if starts:
        start = sorted(starts)[math.ceil(_START_LEVEL * len(starts)) - 1]
    return Pace(start, tuple(reversed(speeds)) or (1.0,))


@dataclass(kw_only=True)
class SpotJobState(MeteredJob):
    """An admitted job of a spot zone.

    Attributes:
        terms: the job as the policy sees it.
        speed: of instances, relative to their profile, that the terms count on.
        unit_cost, unit_price: of an on-demand instance for a slot, to the service and its owner.
        worth: value by time, as recorded.
        promised: work that its instances would have done so far by their profile.
        newest_promised: the same of its newest slot.
        count: instances in its newest slot.
        on_demand: those of them that are on-demand; 0 by total, where the kind does not matter.
        next_trained: results of all its slots below are recorded.
        finish: when its last row was trained, in its own slots, or None.
        was_paused: whether its owner has paused it: slots that it missed may be due to that.
    """

    size: DataSize
    first: int
    terms: SpotJobSpec
    speed: float
    policy: str
    forecast: str
    unit_cost: float
    unit_price: float
    worth: dict[str, Any]
    promised: float = 0.0
    newest_promised: float = 0.0
    count: int = 0
    on_demand: Annotated[int, Field(exclude_if=lambda on_demand: not on_demand)] = 0
    next_trained: int = 0
    finish: float | None = None
    was_paused: Annotated[bool, Field(exclude_if=lambda paused: not paused)] = False

    @property
    def total_rows(self) -> int:
        return self.size.total_rows(self.training.epochs)

    def num_preempted(self, spot_before: int) -> int:
        """Return how many spot instances of its newest slot are lost if so many are left."""
        if self.terms.start is None:
            return 0
        return self.count - self.on_demand - spot_before

    def count_instances(self, on_demand: int, spot: int, share: float, preempted: int) -> None:
        """Count the instances that it holds for a share of a slot.

        `preempted` spot instances were lost within the slot before.
        """
        work, count = 0.0, on_demand + spot
        if count:
            job = self.terms.job()
            last = self.on_demand, self.count - self.on_demand - preempted
            effective = job.effective_share((on_demand, spot), last)
            work = effective * float(job.scaling.throughput(count)) * share
        self.promised += work
        self.newest_promised, self.count = work, count
        self.on_demand = 0 if self.terms.start is None else on_demand

    def is_slower_than_sold(self, rows: int, preempted: int) -> bool:
        """Return whether its newest slot, which ends with so many rows, trained less than sold.

        A slot that lost instances is not compared, and an optimizer batch may have just begun.
        """
        if preempted or rows >= self.total_rows or not self.newest_promised:
            return False
        sold = self.newest_promised / self.terms.workload * self.total_rows
        # Rows of validation data take less time than others.
        before, after = (
            self.size.share_of(count, self.training.epochs) for count in (self.progress.rows, rows)
        )
        done = (after - before) * self.total_rows + self.training.batch_size
        return done < (1.0 - MAX_SHORTFALL) * sold

    def speed_seen(self, done: float) -> float | None:
        """Return the work done relative to what was promised, or None if there was none."""
        promised = self.promised
        if self.finish is not None and self.finish <= self.terms.deadline:
            # The newest slot was not used to its end.
            unused = min(max(self.meter.next_slot - self.finish, 0.0), 1.0)
            promised -= unused * self.newest_promised
        if done <= 0.0 or promised <= 0.0:
            return None
        return done * self.terms.workload * self.speed / promised
