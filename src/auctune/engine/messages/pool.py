"""Requests of a pool to the worker of its device, and the replies.

| request | reply |
| --- | --- |
| `StartPool`, `ReleaseJob` | `PoolDone` |
| `LoadJob` | `JobLoaded` |
| `TrainQuantum` | `SlicesTrained` |
| `ExportJob` | `JobExported` |
| any | `PoolFailed` |

A node's worker takes these requests; a run of a bundle handles them in its own process. Either way
`auctune.engine.workers.pool_jobs` does what they say.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from auctune.engine.messages.base import ErrorRecord, Response


@dataclass(frozen=True, slots=True)
class StartPool:
    """Start a pool; no job is loaded.

    Attributes:
        folder: of the pool (`OpenPoolDirectory`).
        jobs: its jobs; checkpoints of all others are removed.
        memory_bytes: that jobs may take on the device together, or None for all.
        max_step_seconds: after which a batch is stopped.
        saved_every: seconds between checkpoints of a job.
    """

    folder: str
    jobs: Sequence[str]
    memory_bytes: int | None
    max_step_seconds: float
    saved_every: float
    type: Literal["start_pool"] = "start_pool"


@dataclass(frozen=True, slots=True)
class LoadJob:
    """Load a job, and bring it to where the pool's log says that it is.

    Attributes:
        job: its id.
        settings: what it trains, as the job factory reads it.
        memory_bytes: recorded when it was loaded first; None: it is new.
        quanta: batches and mean loss of each recorded quantum in which it trained.
        measured: whether speed and memory of a new job are measured by training some batches.
    """

    job: str
    settings: dict[str, Any]
    memory_bytes: int | None = None
    quanta: Sequence[tuple[int, float]] = ()
    measured: bool = False
    type: Literal["load_job"] = "load_job"


@dataclass(frozen=True, slots=True)
class TimeSlice:
    """What a job trains in a quantum.

    Attributes:
        job: its id.
        batches: to train.
        max_seconds: after which no further batch is begun.
        best: bounds of a loss, or None; if the mean loss is between them, a checkpoint is kept as
            the best.
    """

    job: str
    batches: int
    max_seconds: float
    best: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class TrainQuantum:
    """Train a quantum: all earlier ones have been recorded.

    Attributes:
        time: its number.
        seconds: until it is over, or None if it is not limited.
        slices: the first one is trained first among the jobs that are on the device.
    """

    time: int
    seconds: float | None
    slices: Sequence[TimeSlice]
    type: Literal["train_quantum"] = "train_quantum"


@dataclass(frozen=True, slots=True)
class ExportJob:
    """Write the result of a job.

    Attributes:
        job: its id.
        best: batches of its best checkpoint, which is the result; None: the job as it is, which
            is done and leaves the device.
    """

    job: str
    best: int | None = None
    type: Literal["export_job"] = "export_job"


@dataclass(frozen=True, slots=True)
class ReleaseJob:
    """Forget a job, and remove its checkpoints; its result stays."""

    job: str
    type: Literal["release_job"] = "release_job"


@dataclass(frozen=True, slots=True)
class MemoryState:
    """Memory of the device that the jobs of a pool share.

    Attributes:
        resident: jobs on the device.
        suspended, resumed: how often jobs left the device and came back.
        seconds: that this took.
        max_bytes: that were ever in use, by the jobs' own count.
    """

    resident: tuple[str, ...] = ()
    suspended: int = 0
    resumed: int = 0
    seconds: float = 0.0
    max_bytes: int = 0

    def swap_seconds(self, jobs: Sequence[str]) -> float:
        """Return how long swapping is expected to take in a quantum in which these train."""
        # A job that leaves and another that comes; 0 before the first.
        mean_seconds = self.seconds / self.resumed if self.resumed else 0.0
        return mean_seconds * sum(job not in self.resident for job in jobs)


@dataclass(slots=True)
class SliceResult:
    """What a job had of a quantum.

    Attributes:
        batches: trained.
        loss, accuracy: means over them; NaN where there are none.
        seconds: that training took.
        read: rows and tokens trained so far; zeros if it does not count them.
        too_slow: why its last batch was stopped; empty if it was not.
    """

    batches: int = 0
    loss: float = math.nan
    accuracy: float = math.nan
    seconds: float = 0.0
    read: tuple[int, int] = (0, 0)
    too_slow: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolDone(Response):
    """A request without a result was done; `memory` is that of the device, as in all replies."""

    memory: MemoryState
    type: Literal["pool_done"] = "pool_done"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLoaded(Response):
    """A job was loaded.

    Attributes:
        memory_bytes: that it takes while it trains.
        seconds: that loading it took.
        batches_per_second: measured, or None.
        notes: on its data.
        warning: on its checkpoints, or an empty text.
    """

    memory: MemoryState
    memory_bytes: int
    seconds: float
    batches_per_second: float | None
    notes: Sequence[str]
    warning: str
    type: Literal["job_loaded"] = "job_loaded"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlicesTrained(Response):
    """A quantum was trained: results by job, without those for which there was no time."""

    results: Mapping[str, SliceResult]
    memory: MemoryState
    type: Literal["slices_trained"] = "slices_trained"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobExported(Response):
    """A job was exported, if it has a result."""

    has_result: bool
    memory: MemoryState
    type: Literal["job_exported"] = "job_exported"


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolFailed(Response):
    """A request failed; `job` is given if the code of this job raised the error."""

    error: ErrorRecord
    job: str | None = None
    type: Literal["pool_failed"] = "pool_failed"


PoolRequest = StartPool | LoadJob | TrainQuantum | ExportJob | ReleaseJob
PoolReply = PoolDone | JobLoaded | SlicesTrained | JobExported | PoolFailed
