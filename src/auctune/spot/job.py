"""A job that rents by deadline."""

import math
from dataclasses import dataclass, field

from auctune.domain import InputError
from auctune.domain.checks import check_count, check_finite, check_positive
from auctune.spot.overhead import Overhead
from auctune.spot.scaling import LinearScaling, Scaling

# The value of a job that names none, in on-demand GPU-slots for each unit of work.
DEFAULT_VALUE = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotJob:
    """Workload, deadline and value of one job; Kong et al. (arXiv 2512.20967), section III.

    Attributes:
        workload: L, units of work.
        deadline: d, the soft deadline: the job is worth all its value by the end of slot d - 1.
        hard_factor: g; from slot g * d on the job is worth nothing.
        value: v, in units of the on-demand price; by default 1.5 L.
        n_min: the least GPUs that hold the job, when it runs at all.
        n_max: the most that it can use.
        scaling: H(n).
        overhead: mu_1 and mu_2.
    """

    workload: float
    deadline: int
    hard_factor: float = 1.5
    value: float = math.nan
    n_min: int = 1
    n_max: int = 16
    scaling: Scaling = field(default_factory=LinearScaling)
    overhead: Overhead = field(default_factory=Overhead)

    def __post_init__(self) -> None:
        check_positive(self.workload, "workload", "a number > 0")
        if math.isnan(self.value):
            object.__setattr__(self, "value", DEFAULT_VALUE * self.workload)
        check_finite(self.value, "value", "a number >= 0")
        if self.deadline < 1:
            raise InputError("deadline", f"{self.deadline!r}", "a whole number of slots >= 1")
        if not (math.isfinite(self.hard_factor) and self.hard_factor >= 1):
            raise InputError("hard_factor", f"{self.hard_factor!r}", "a number >= 1")
        check_count(self.n_min, "n_min", 1)
        if self.n_max < self.n_min:
            raise InputError("n_max", f"{self.n_max!r}", f"a whole number >= n_min = {self.n_min}")
        self.scaling.check_reaches(self.n_max)

    @property
    def hard_deadline(self) -> float:
        """g * d, in slots."""
        return self.hard_factor * self.deadline
