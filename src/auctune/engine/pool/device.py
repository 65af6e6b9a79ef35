"""Requests of a pool to the worker of its device, and the replies.

A node's worker takes these requests (`auctune.engine.workers.node`); a run of a bundle handles them
in its own process. Either way `auctune.engine.workers.pool_jobs` does what they say. They decide
nothing: the pool does, in the process that holds its log.

| request | reply |
| --- | --- |
| `StartPool` | None; no job is loaded |
| `LoadJob` | `LoadedJob` |
| `TrainQuantum` | `SliceResult` by job; one for which there was no time is missing |
| `ExportJob` | whether the job has a result |
| `ReleaseJob` | None |

Each reply comes with the state of the device's memory (`MemoryState`).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal, NotRequired, TypedDict, cast

from pydantic import Field, TypeAdapter

from auctune.domain import AuctuneError
from auctune.engine.runtime.channel import ErrorRecord, Message, error_record, read_error


class JobFailedError(AuctuneError):
    """The code of a job, which may be a user's own, raised an error.

    Attributes:
        job: its id.
    """

    def __init__(self, job: str, message: str) -> None:
        super().__init__(message)
        self.job = job


@dataclass(frozen=True, slots=True)
class StartPool:
    """Start a pool.

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
    do: Literal["start_pool"] = "start_pool"


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
    do: Literal["load_job"] = "load_job"


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
    do: Literal["train_quantum"] = "train_quantum"


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
    do: Literal["export_job"] = "export_job"


@dataclass(frozen=True, slots=True)
class ReleaseJob:
    """Forget a job, and remove its checkpoints; its result stays."""

    job: str
    do: Literal["release_job"] = "release_job"


PoolRequest = StartPool | LoadJob | TrainQuantum | ExportJob | ReleaseJob
POOL_VERBS = ("start_pool", "load_job", "train_quantum", "export_job", "release_job")


@dataclass(frozen=True, slots=True)
class LoadedJob:
    """A job that was loaded.

    Attributes:
        memory_bytes: that it takes while it trains.
        seconds: that loading it took.
        batches_per_second: measured, or None.
        notes: on its data.
        warning: on its checkpoints, or an empty text.
    """

    memory_bytes: int
    seconds: float
    batches_per_second: float | None = None
    notes: Sequence[str] = ()
    warning: str = ""


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


class PoolError(ErrorRecord):
    """An error as plain values; `job` is given if the code of this job raised it."""

    job: NotRequired[str]


class PoolReply(TypedDict):
    """Reply to the request `do` of a pool: a result and the state of the memory, or an error."""

    kind: Literal["pool_reply"]
    do: str
    result: NotRequired[Any]
    memory: NotRequired[dict[str, Any]]
    error: NotRequired[PoolError]


_REQUESTS: TypeAdapter[PoolRequest] = TypeAdapter(Annotated[PoolRequest, Field(discriminator="do")])
_MEMORY = TypeAdapter(MemoryState)
_LOADED = TypeAdapter(LoadedJob)
_TRAINED = TypeAdapter(dict[str, SliceResult])


def read_request(message: Mapping[str, object]) -> PoolRequest:
    """Return the request of a message."""
    return _REQUESTS.validate_python(message)


def failed_reply(do: str, error: AuctuneError) -> PoolReply:
    """Return the reply to a request that failed."""
    record = cast(PoolError, error_record(error))
    if isinstance(error, JobFailedError):
        record["job"] = error.job
    return {"kind": "pool_reply", "do": do, "error": record}


def _read_error(record: PoolError) -> AuctuneError:
    if "job" in record:
        return JobFailedError(record["job"], record["found"])
    return read_error(record, AuctuneError)


class PoolDevice:
    """The device of a pool, as the pool sees it.

    Args:
        send: has a request handled, and returns the reply; what it raises, all methods raise.

    Attributes:
        memory: as of the newest reply.

    Raises (of all methods):
        JobFailedError: if the code of a job raises an error.
        AuctuneError: if the worker cannot do what is requested.
    """

    def __init__(self, send: Callable[[Message], PoolReply]) -> None:
        self._send = send
        self.memory = MemoryState()

    def start(self, request: StartPool) -> None:
        self._request(request)

    def load(self, request: LoadJob) -> LoadedJob:
        """Load a job.

        Raises:
            InputError: if it cannot be trained, or is too large for the device.
            CheckpointError: if its checkpoints cannot be used.
        """
        return _LOADED.validate_python(self._request(request))

    def train(self, request: TrainQuantum) -> dict[str, SliceResult]:
        return _TRAINED.validate_python(self._request(request))

    def export(self, request: ExportJob) -> bool:
        return bool(self._request(request))

    def release(self, request: ReleaseJob) -> None:
        self._request(request)

    def _request(self, request: PoolRequest) -> Any:
        reply = self._send(asdict(request))
        if "error" in reply:
            raise _read_error(reply["error"])
        self.memory = _MEMORY.validate_python(reply["memory"])
        return reply["result"]
