"""How a standing pool is run."""

from dataclasses import dataclass

from auctune.domain.checks import check_positive
from auctune.timeshare.allocator import Allocator
from auctune.timeshare.estimators.estimator import Estimator

MAX_STEP_UNITS = 4.0
"""Units for which a batch may hold the pool, which looks at deadlines and cancellations between
batches. A batch that the profile says takes a unit is admitted: this leaves room for its error."""

MAX_OVERRUN_UNITS = 1.0 + MAX_STEP_UNITS
"""Units that one may last: it is overrun by one batch at most."""


@dataclass(frozen=True, slots=True, eq=False)
class OpenPoolParams:
    """Settings of a pool.

    Attributes:
        allocator: how threads share.
        estimator: foretells when each will be done, for those who watch.
        unit_seconds: of real time; none: a unit lasts as long as its batches take, and every
            thread says how many they are.
        memory_bytes: of the device that all threads may take together; none: all there is.
        cpu_threads: of torch.
        saved_every: seconds between checkpoints of a thread.
    """

    allocator: Allocator
    estimator: Estimator
    unit_seconds: float | None = None
    memory_bytes: int | None = None
    cpu_threads: int = 1
    saved_every: float = 30.0

    def __post_init__(self) -> None:
        if self.unit_seconds is not None:
            check_positive(self.unit_seconds, "unit_seconds", "a number > 0")
        if self.memory_bytes is not None:
            check_positive(self.memory_bytes, "memory", "a number of bytes > 0")
