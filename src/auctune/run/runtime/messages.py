"""Requests to the worker of a node, and its results.

| to the node | from the node |
| --- | --- |
| ping | preparing {what, share}, alive, pong |
| | ready {base_digest, architecture, context_tokens, origin} |
| measure {effort} | measuring {what, share}, measured {profile} |
| train: `TrainSlotRequest` | progress {request, task, rows, total_rows, loss, ...} |
| stop | noted {request, task, text} |
| | trained {request, slot, seconds, saved_at, results, refused} |
| | failed {request, place, found, expected} |

Times are unix seconds. `request` is the id of the request that a message answers; `results` holds a
`TaskResult` by task, and `refused` the errors of tasks that could not be loaded or saved. A task
whose error has `out_of_memory` or `unreadable` may succeed at the next try.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from auctune.domain import AuctuneError
from auctune.run.runtime.channel import Message
from auctune.train.job import LoraJob

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
        measure_seconds: time limit where it is to measure its device.
    """

    base: str
    cache: str
    device: str = "cpu"
    dtype: str = "float32"
    mode: str = "fused"
    threads: int = 1
    token_budget: int = 512
    overhead_tokens: int | None = None
    measure_seconds: float = 90.0


@dataclass(frozen=True, slots=True)
class TaskQuota:
    """A task's work in one slot.

    Attributes:
        job: with its data as they are to be trained.
        folder: of its checkpoints.
        number: of the checkpoint to write at the end.
        target: rows to have trained by the end of the slot, over all epochs.
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
        rows, total_rows: trained, and to train, over all epochs.
        tokens, steps: so far.
        state: "training", "done" or "failed".
        losses: (step, rows, tokens, loss) of the steps after `known_steps`.
        validation: (epoch, rows, loss) so far.
        note: why it failed or stopped early.
        exported: whether the adapter is in its folder, verified.
    """

    rows: int
    total_rows: int
    tokens: int
    steps: int
    state: str
    losses: tuple[tuple[int, int, int, float], ...]
    validation: tuple[tuple[int, int, float], ...]
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


def measure_request(effort: str) -> Message:
    """Return a request for a profile of the device, of "quick" or "full" effort."""
    return {"do": "measure", "effort": effort}


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
) -> TaskQuota:
    """Return a task's work in one slot, from plain settings.

    Args:
        job: its id.
        settings: of its training, by the names of `LoraJob`.
        data, validation: files of rows.
        folder: the job's own; checkpoints and the adapter go there.
        number, target, known_steps: as of `TaskQuota`.

    Raises:
        InputError: for a setting out of range.
    """
    return TaskQuota(
        job=LoraJob(id=job, data=data, validation=validation, **settings),
        folder=folder,
        number=number,
        target=target,
        adapter=adapter_folder(folder),
        known_steps=known_steps,
    )


def adapter_folder(folder: Path) -> Path:
    """Return where a job's adapter is exported, in the job's folder."""
    return folder / "adapter"
