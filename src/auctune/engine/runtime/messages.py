"""Requests to the worker of a node, its messages, and those of its supervisor.

| to the node | from the node: `WorkerMessage` |
| --- | --- |
| ping | pong; before: preparing, ready, alive |
| measure | measuring, measured |
| train: `TrainSlotRequest` | progress, noted, and at last trained or failed |
| requests of a pool (`auctune.engine.pool.device`) | pool_reply |
| stop | |

Times are unix seconds. `request` is the id of the request that a message answers. A supervisor
passes these messages on, and adds its own (`NodeMessage`).
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict, cast

from pydantic import TypeAdapter

from auctune.domain import AuctuneError
from auctune.domain.epoch_metrics import EpochMetrics
from auctune.engine.pool.device import PoolReply
from auctune.engine.runtime.channel import Alive, ErrorRecord, Message, Preparing, error_record
from auctune.engine.runtime.worker import WorkerSpec
from auctune.train.adapter_files import read_epochs
from auctune.train.job import CurvePoint, LoraJob, ValidationMeans

NODE_WORKER = "auctune.engine.workers.node"
PING: Message = {"do": "ping"}


class NodeError(AuctuneError):
    """A node's worker ended, or could not do what was requested."""


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """Argument of a node's worker.

    Attributes:
        base: the base model's name.
        cache: folder of bases that are built here.
        device, dtype: where and how it computes.
        mode: of the trainer, "fused" or "exact".
        threads: of torch on a CPU.
        token_budget: tokens of a micro-batch at most.
        overhead_tokens: tokens that take as long as a pass itself does; None: the default.
        backend: who multiplies the adapters' matrices: "auto", "loop", "bmm" or "grouped".
        gradient_checkpointing: as of `MultiLoraTrainer`'s `checkpointing`.
        measure_seconds: time limit where it is to measure its device.
        niceness: of the process, 0 to 19: the larger, the less of shared cores it gets.
    """

    base: str
    cache: str
    device: str = "cpu"
    dtype: str = "float32"
    mode: str = "fused"
    threads: int = 1
    token_budget: int = 512
    overhead_tokens: int | None = None
    backend: str = "auto"
    gradient_checkpointing: int = 0
    measure_seconds: float = 60.0
    niceness: int = 0


def node_worker(
    settings: NodeSettings, log: Path | None = None, module: str = NODE_WORKER
) -> WorkerSpec:
    """Return what the worker of a node runs."""
    return WorkerSpec(module, asdict(settings), settings.device, log, settings.niceness)


def node_workers(
    settings: Mapping[str, NodeSettings], logs: Path | None = None, module: str = NODE_WORKER
) -> dict[str, WorkerSpec]:
    """Return the workers of nodes by id, whose standard error goes to NODE.log in a folder."""
    if logs is not None:
        logs.mkdir(parents=True, exist_ok=True)
    return {
        node: node_worker(one, None if logs is None else logs / f"{node}.log", module)
        for node, one in settings.items()
    }


@dataclass(frozen=True, slots=True)
class TaskQuota:
    """A task's work in one slot.

    Attributes:
        job: with its data as they are to be trained.
        folder: of its checkpoints.
        number: of the checkpoint to write at the end.
        target: rows to have trained by the end of the slot, over all epochs; the rows of the
            validation data follow those of each epoch, and count too.
        adapter: where to export the adapter once all rows are trained.
        known_steps: steps whose losses have been reported.
        attempt: number of the attempt to train the task, as of `begin_attempt`; set by the executor
            when it sends the request.
    """

    job: LoraJob
    folder: Path
    number: int
    target: int
    adapter: Path
    known_steps: int = 0
    attempt: int | None = None


@dataclass(frozen=True, slots=True)
class TaskResult:
    """Progress of a task after a slot.

    Attributes:
        rows, total_rows: trained, and to train, over all epochs, validation data included.
        tokens, steps: so far.
        state: "training", "done" or "failed".
        losses: of the steps after `known_steps`.
        validation: (epoch, rows, loss, accuracy) so far.
        note: why it failed or stopped early.
        exported: whether the adapter is in its folder, verified.
    """

    rows: int
    total_rows: int
    tokens: int
    steps: int
    state: str
    losses: tuple[CurvePoint, ...]
    validation: tuple[ValidationMeans, ...]
    note: str
    exported: bool


@dataclass(frozen=True, slots=True)
class TrainSlotRequest:
    """The work of a node in one slot.

    Attributes:
        slot: its number.
        tasks: at least one.
        until: unix time at which all checkpoints must be on disk, whatever is trained by then;
            None: when all targets are reached.
        id: returned by the answers.
    """

    slot: int
    tasks: tuple[TaskQuota, ...]
    until: float | None = None
    id: str = ""

    @property
    def task_ids(self) -> frozenset[str]:
        return frozenset(task.job.id for task in self.tasks)

    def to_message(self) -> Message:
        """Return the message to a node's worker."""
        return {"do": "train", **_REQUESTS.dump_python(self, mode="json")}

    @classmethod
    def from_message(cls, message: Message) -> "TrainSlotRequest":
        """Return the request that `to_message` wrote."""
        return _REQUESTS.validate_python(message)


_REQUESTS = TypeAdapter(TrainSlotRequest)
_RESULTS = TypeAdapter(TaskResult)


class Started(TypedDict):
    """A worker's process runs; `host` is given if it is another machine."""

    kind: Literal["started"]
    pid: int
    host: NotRequired[str]


class Missing(TypedDict):
    """Machine or cluster of the node is missing."""

    kind: Literal["missing"]
    what: str


class Ready(TypedDict):
    """The worker has loaded the base model."""

    kind: Literal["ready"]
    base_digest: str
    architecture: str
    context_tokens: int | None
    origin: str


class Pong(TypedDict):
    """Response to a ping."""

    kind: Literal["pong"]


class Measuring(TypedDict):
    """Progress of a measurement of the device; `share` is of the whole, in [0, 1]."""

    kind: Literal["measuring"]
    what: str
    share: float


class Measured(TypedDict):
    """A measured profile, as JSON."""

    kind: Literal["measured"]
    profile: str


class _AboutRequest(TypedDict):
    request: str
    stale: NotRequired[bool]
    """Set by the supervisor: whether the node is no longer at that request."""


class Progress(_AboutRequest):
    """Progress of a task within a slot; `rows` count over all epochs."""

    kind: Literal["progress"]
    task: str
    rows: int
    total_rows: int
    tokens: int
    loss: float | None
    tokens_per_second: float
    memory_gb: float


class Noted(_AboutRequest):
    """A warning about a task, for its owner."""

    kind: Literal["noted"]
    task: str
    text: str


class Trained(_AboutRequest):
    """A slot has been trained, and its checkpoints are on disk since `saved_at`.

    `results` holds a `TaskResult` as plain values by task, `refused` the errors of tasks that could
    not be loaded or saved. A task whose error has `out_of_memory` or `unreadable` may succeed at
    the next attempt.
    """

    kind: Literal["trained"]
    slot: int
    seconds: float
    saved_at: float
    results: dict[str, dict[str, Any]]
    refused: dict[str, ErrorRecord]


class RequestFailed(ErrorRecord, _AboutRequest):
    """A request failed, or the worker could not start: `request` is empty then."""

    kind: Literal["failed"]
    slot: NotRequired[int]
    """Set by the supervisor, like `why`, if it is of the current request."""
    why: NotRequired[str]


class NotCompleted(TypedDict):
    """A request has no result; `begun`: a worker took it."""

    kind: Literal["not_completed"]
    request: str
    slot: int
    tasks: list[str]
    why: str
    begun: bool


class Ended(TypedDict):
    """The worker has ended `exits` times in a row, and is restarted after `backoff` seconds."""

    kind: Literal["ended"]
    how: str
    exits: int
    backoff: float


class Lost(TypedDict):
    """The worker exited repeatedly, or its machine is `missing`; restarts continue."""

    kind: Literal["lost"]
    how: str
    missing: bool


class Recovered(TypedDict):
    """A node that was lost takes requests again."""

    kind: Literal["recovered"]


RequestMessage = Progress | Noted | Trained | RequestFailed
WorkerMessage = (
    Alive
    | Started
    | Preparing
    | Missing
    | Ready
    | Pong
    | Measuring
    | Measured
    | PoolReply
    | RequestMessage
)
NodeMessage = WorkerMessage | NotCompleted | Ended | Lost | Recovered


def measure_request() -> Message:
    """Return a request for a profile of the device."""
    return {"do": "measure"}


def request_failed(request: str, error: AuctuneError) -> RequestFailed:
    """Return the message about a request that failed; the id is empty if there is none."""
    return cast(RequestFailed, {"kind": "failed", "request": request, **error_record(error)})


def read_result(record: Message) -> TaskResult:
    """Return a result from its plain values."""
    return _RESULTS.validate_python(record)


def make_quota(
    job: str,
    settings: Mapping[str, Any],
    data: Path,
    validation: Path | None,
    folder: Path,
    *,
    number: int,
    target: int,
    known_steps: int,
    start_from: Path | None = None,
    start_digest: str | None = None,
) -> TaskQuota:
    """Return a task's work in one slot, from plain settings.

    Args:
        job: its id.
        settings: of its training, by the names of `LoraJob`.
        data, validation: files of rows.
        folder: the job's own; checkpoints and the adapter go there.
        number, target, known_steps: as of `TaskQuota`.
        start_from, start_digest: as of `LoraJob`.

    Raises:
        InputError: for a setting out of range.
    """
    return TaskQuota(
        job=LoraJob(job, data, validation, start_from, start_digest, **settings),
        folder=folder,
        number=number,
        target=target,
        adapter=adapter_folder(folder),
        known_steps=known_steps,
    )


def epoch_adapters(folder: Path) -> list[tuple[EpochMetrics, Path]]:
    """Return the adapters of the last epochs in a job's folder, in order: metrics, folders."""
    return read_epochs(folder)


def adapter_folder(folder: Path) -> Path:
    """Return where a job's adapter is exported, in the job's folder."""
    return folder / "adapter"
