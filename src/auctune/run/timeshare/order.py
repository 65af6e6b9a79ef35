"""What a run is to do."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from auctune.domain import InputError
from auctune.domain.checks import check_positive
from auctune.timeshare.allocator import Allocator
from auctune.timeshare.estimators.estimator import Estimator
from auctune.timeshare.thread import LearningThread
from auctune.train.preemptible import PreemptibleJob


@dataclass(frozen=True, slots=True, eq=False)
class PoolThread:
    """One thread of a run.

    Attributes:
        learning: what it is to reach, and by when.
        make: makes it anew, always the same.
        lasting: what it is, as JSON can hold it: a run goes on with nothing else.
        batches_per_unit: N; none: it is measured.
    """

    learning: LearningThread
    make: Callable[[], PreemptibleJob]
    lasting: dict[str, Any]
    batches_per_unit: float | None = None

    def __post_init__(self) -> None:
        if self.batches_per_unit is not None:
            check_positive(self.batches_per_unit, "batches_per_unit", "a number > 0")


@dataclass(frozen=True, slots=True, eq=False)
class PoolOrder:
    """A bundle and how it is run.

    Attributes:
        threads: of the bundle, one at least.
        allocator: how they share.
        estimator: foretells when each will be done, for those who watch.
        unit_seconds: of real time; none: a unit lasts as long as its batches take, and every
            thread says how many they are. Then a run comes to the same end each time.
        memory_bytes: of the device that all threads may take together; none: all there is.
        cpu_threads: of torch.
    """

    threads: Sequence[PoolThread]
    allocator: Allocator
    estimator: Estimator
    unit_seconds: float | None = None
    memory_bytes: int | None = None
    cpu_threads: int = 1

    def __post_init__(self) -> None:
        if self.unit_seconds is not None:
            check_positive(self.unit_seconds, "unit_seconds", "a number > 0")
        if self.memory_bytes is not None:
            check_positive(self.memory_bytes, "memory", "a number of bytes > 0")
        for index, thread in enumerate(self.threads):
            if self.unit_seconds is None and thread.batches_per_unit is None:
                place = f"threads[{index}].batches_per_unit"
                raise InputError(place, "is missing", "a number > 0, as units have no length")

    @property
    def learning(self) -> list[LearningThread]:
        """The bundle, as allocators see it."""
        return [thread.learning for thread in self.threads]
