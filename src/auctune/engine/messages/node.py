"""Requests to the worker of a node, its replies, and the messages of its supervisor.

| request | replies |
| --- | --- |
| (its start) | `NodeReady` or `RequestFailed`; before it `Preparing`, `Alive` |
| `Ping` | `Pong` |
| `Measure` | `Measuring`, and at last `Measured` |
| `TrainSlotRequest` | `Progress`, `Noted`, and at last `Trained` or `RequestFailed` |
| those of a pool (`auctune.engine.messages.pool`) | those of a pool |

Times are unix seconds. A supervisor passes the replies on, and adds messages of its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from auctune.engine.messages.base import (
    Alive,
    ErrorRecord,
    Failed,
    Missing,
    Preparing,
    Ready,
    Response,
    Started,
    Stop,
    WorkerMessages,
)
from auctune.engine.messages.pool import PoolReply, PoolRequest
from auctune.train.job import CurvePoint, LoraJob, ValidationMeans


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Ping:
    """Request for a `Pong`."""

    type: Literal["ping"] = "ping"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """Request for a profile of the device."""

    type: Literal["measure"] = "measure"


@dataclass(frozen=True, slots=True)
class TrainSlotRequest:
    """The work of a node in one slot.

    Attributes:
        slot: its number.
        tasks: at least one.
        until: unix time at which all checkpoints must be on disk, whatever is trained by then;
            None: when all targets are reached.
        id: returned by the replies as `request`.
    """

    slot: int
    tasks: tuple[TaskQuota, ...]
    until: float | None = None
    id: str = ""
    type: Literal["train_slot_request"] = "train_slot_request"

    @property
    def task_ids(self) -> frozenset[str]:
        return frozenset(task.job.id for task in self.tasks)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReady(Ready):
    """The worker has loaded the base model."""

    base_digest: str
    architecture: str
    context_tokens: int | None
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pong(Response):
    """Response to a ping."""

    type: Literal["pong"] = "pong"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measuring:
    """Progress of a measurement of the device; `share` is of the whole, in [0, 1]."""

    what: str
    share: float
    type: Literal["measuring"] = "measuring"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured(Response):
    """A measured profile, as JSON."""

    profile: str
    type: Literal["measured"] = "measured"


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Progress of a task within a slot.

    Attributes:
        request: id of the request.
        task: id of the task.
        rows, total_rows: trained, and to train, over all epochs.
        tokens, loss, tokens_per_second, memory_gb: as of `auctune.train.job.Progress`.
        stale: set by the supervisor: whether the node is no longer at that request.
    """

    request: str
    task: str
    rows: int
    total_rows: int
    tokens: int
    loss: float | None
    tokens_per_second: float
    memory_gb: float
    stale: bool = False
    type: Literal["progress"] = "progress"


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """A warning about a task, for its owner; `request` and `stale` as of `Progress`."""

    request: str
    task: str
    text: str
    stale: bool = False
    type: Literal["noted"] = "noted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained(Response):
    """A slot has been trained.

    Attributes:
        request, stale: as of `Progress`.
        slot: its number.
        seconds: that it took.
        saved_at: since when the checkpoints are on disk.
        results: by task.
        refused: errors of tasks that could not be loaded or saved. One that is `out_of_memory` or
            `unreadable` may succeed at the next attempt.
    """

    request: str
    slot: int
    seconds: float
    saved_at: float
    results: Mapping[str, TaskResult]
    refused: Mapping[str, ErrorRecord]
    stale: bool = False
    type: Literal["trained"] = "trained"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFailed(Failed):
    """A request failed, or the worker could not start: `request` is empty then.

    Attributes:
        stale: as of `Progress`.
        slot: set by the supervisor, if it is of the current request.
    """

    stale: bool = False
    slot: int | None = None

    @property
    def why(self) -> str:
        return self.error.found


@dataclass(frozen=True, slots=True, kw_only=True)
class NotCompleted:
    """A request has no result; `begun`: a worker took it."""

    request: str
    slot: int
    tasks: tuple[str, ...]
    why: str
    begun: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The worker has ended `exits` times in a row, and is restarted after `backoff` seconds."""

    how: str
    exits: int
    backoff: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """The worker exited repeatedly, or its machine is `missing`; restarts continue."""

    how: str
    missing: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """A node that was lost takes requests again."""


NodeRequest = Ping | Measure | TrainSlotRequest | PoolRequest | Stop
SlotReply = Progress | Noted | Trained | RequestFailed
"""Replies about a request to train a slot."""
NodeReply = (
    Alive | Started | Missing | Preparing | NodeReady | Pong | Measuring | Measured | PoolReply
) | SlotReply
SupervisorMessage = NotCompleted | Ended | Lost | Recovered
NodeMessage = NodeReply | SupervisorMessage
NODE_MESSAGES = WorkerMessages(NodeRequest, NodeReply)
