"""Process of an open pool: its settings, and the messages between it and its owner.

The owner sends `reconcile {jobs, seq}` and at last `stop`, the pool sends `PoolMessage`s. `jobs`
are all that the pool should have (`DesiredJob`), each time: a message that is repeated changes
nothing, and one that was lost is made good by the next. `seq` numbers the owner's state
that they follow from; `reconciled` returns it once the pool has dropped all other jobs, and has
sent every event about them. Events are those of the pool's log (`auctune.engine.pool.events`): a
process that starts first sends those that its owner does not have. `outlooks` give finish and
status of each job of a quantum that has just been trained; an event that is sent again has none.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, TypedDict

from pydantic import TypeAdapter

from auctune.domain.checks import check_positive
from auctune.engine.runtime.channel import Alive, Failed, Message, OnMessage, Preparing
from auctune.engine.runtime.local import WorkerProcess
from auctune.timeshare.named import DEFAULT_ALLOCATOR, AllocatorName

WORKER = "auctune.engine.pool.worker"

MAX_STEP_QUANTA = 4.0
"""Quanta for which a batch may hold the pool, which checks deadlines and cancellations between
batches. A batch that by the profile takes a quantum is admitted: this leaves room for its error."""

MAX_OVERRUN_QUANTA = 1.0 + MAX_STEP_QUANTA
"""Quanta that one may last: it is overrun by one batch at most."""


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """Settings of a pool's process.

    Attributes:
        folder: of the pool (`PoolDirectory`).
        base: name of the base model.
        cache: folder of base models that are built here.
        epoch: unix time at which quantum 0 began.
        quantum_seconds: length of a quantum.
        allocator: how jobs share, by name.
        after: number of the newest event that the owner has.
        device, dtype: where and how it computes.
        threads: of torch on a CPU.
        gradient_checkpointing: as of `MultiLoraTrainer`'s `checkpointing`.
        memory_bytes: that adapters may take on the device together, or None for all.
        niceness: of the process, as of `WorkerProcess`.
    """

    folder: str
    base: str
    cache: str
    epoch: float
    quantum_seconds: float
    allocator: AllocatorName = DEFAULT_ALLOCATOR
    after: int = 0
    device: str = "cpu"
    dtype: str = "float32"
    threads: int = 1
    gradient_checkpointing: bool = False
    memory_bytes: int | None = None
    niceness: int = 0


class PoolReady(TypedDict):
    """The base is loaded."""

    kind: Literal["ready"]
    base_digest: str


class PoolEvent(TypedDict):
    """An event of the pool's log, with its number there."""

    kind: Literal["event"]
    number: int
    event: Message
    outlooks: Message


class Reconciled(TypedDict):
    """The pool has only jobs that were desired at `seq`."""

    kind: Literal["reconciled"]
    seq: int


PoolMessage = Alive | Failed | Preparing | PoolReady | PoolEvent | Reconciled


class DesiredStatus(StrEnum):
    """What the owner of a job wants of it."""

    RUNNING = "running"
    PAUSED = "paused"
    """No share until it is to run again; its deadline stays."""
    STOPPED = "stopped"
    """Leave with the best result so far."""


@dataclass(frozen=True, slots=True)
class DesiredJob:
    """A job that an open pool should have; a job that is not desired any more is cancelled.

    Attributes:
        id: unique for ever, and fit for a folder's name.
        deadline: the quantum by whose beginning it must be done.
        threshold: target loss of a quantum, > 0.
        settings: what it trains, as the pool's job factory reads it; JSON values.
        batches_per_quantum: estimate, corrected by what it trains.
        status: what its owner wants of it.
    """

    id: str
    deadline: int
    threshold: float
    settings: dict[str, Any]
    batches_per_quantum: float
    status: DesiredStatus = DesiredStatus.RUNNING

    def __post_init__(self) -> None:
        check_positive(self.threshold, "threshold", "a loss > 0")
        check_positive(self.batches_per_quantum, "batches_per_quantum", "a number > 0")


DesiredJobs = Mapping[str, DesiredJob]
"""All jobs that an open pool should have, by id."""

_JOBS = TypeAdapter(list[DesiredJob])


def reconcile_message(jobs: Iterable[DesiredJob], seq: int) -> Message:
    """Return the message that lists all desired jobs."""
    return {"do": "reconcile", "jobs": [asdict(job) for job in jobs], "seq": seq}


def read_reconcile(message: Message) -> tuple[DesiredJobs, int]:
    """Return the jobs of `reconcile_message` by id, and its `seq`."""
    return {job.id: job for job in _JOBS.validate_python(message["jobs"])}, message["seq"]


class PoolProcess(WorkerProcess):
    """Handle of a process that runs an open pool; it ends at once when its owner does.

    Args:
        settings: of the pool.
        on_message, lock, log: as of `WorkerProcess`.
        module: of the worker.
    """

    def __init__(
        self,
        settings: PoolSettings,
        on_message: OnMessage,
        *,
        lock: int | None = None,
        log: Path | None = None,
        module: str = WORKER,
    ) -> None:
        super().__init__(
            module,
            asdict(settings),
            on_message,
            lock=lock,
            log=log,
            device=settings.device,
            fork=True,
            niceness=settings.niceness,
        )

    def reconcile(self, jobs: Iterable[DesiredJob], seq: int) -> None:
        """Send the list of all desired jobs.

        Args:
            jobs: all of them.
            seq: comes back in `reconciled` once the pool trains no others.
        """
        self.send(reconcile_message(jobs, seq))
