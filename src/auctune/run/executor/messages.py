"""What the market and its node processes say to each other: JSON, one message a line.

| to the node | from the node |
| --- | --- |
| ping | preparing {what, share}, alive, pong |
| | ready {base_digest, architecture, context_tokens, origin} |
| measure {effort} | measuring {what, share}, measured {profile} |
| train {slot, order, until, tasks} | progress {order, task, rows, total_rows, loss, ...} |
| stop | noted {order, task, text} |
| | trained {order, slot, seconds, saved_at, results, refused} |
| | failed {order, place, found, expected} |

Times are unix seconds. `order` is the id of the order that a message answers; `refused` holds the
errors of tasks that could not be taken up or saved, by task; with out_of_memory, it was for want of
memory alone, and the task can be tried again.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from auctune.run.child import Message
from auctune.train.job import LoraJob


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """What a node process is started with.

    Attributes:
        base: the base model's name.
        cache: folder of bases that are built here.
        device, dtype: where and how it computes.
        mode: of the trainer, "fused" or "exact".
        threads: of torch on a CPU.
        token_budget: tokens of a micro-batch at most.
        overhead_tokens: tokens that take as long as a pass itself does; none: as the trainer says.
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
class TaskOrder:
    """A task's work in one slot.

    Attributes:
        job: with its data as they are to be trained.
        folder: of its checkpoints.
        number: of the checkpoint to write at the end.
        target: rows to have trained by the end of the slot, over all epochs.
        adapter: where to export the adapter once all rows are trained.
        known_steps: steps whose losses the market has on record.
    """

    job: LoraJob
    folder: Path
    number: int
    target: int
    adapter: Path
    known_steps: int = 0


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What a task stands at after a slot.

    Attributes:
        rows, total_rows: trained, and to train, over all epochs.
        tokens, steps: so far.
        state: "training", "done" or "failed".
        losses: (step, rows, tokens, loss) of the steps that the market did not know.
        validation: (epoch, rows, loss) so far.
        note: why it failed or stopped early.
        exported: whether the adapter lies in its folder, checked.
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


def order_record(order: TaskOrder) -> Message:
    """An order as plain values."""
    job = asdict(order.job)
    for name in ("data", "validation"):
        job[name] = None if job[name] is None else str(job[name])
    return {
        "job": job,
        "folder": str(order.folder),
        "number": order.number,
        "target": order.target,
        "adapter": str(order.adapter),
        "known_steps": order.known_steps,
    }


def train_message(
    slot: int, orders: Sequence[TaskOrder], order: str, until: float | None
) -> Message:
    """What asks a node for a slot's work; arguments as of `NodeProcess.train`."""
    tasks = [order_record(one) for one in orders]
    return {"do": "train", "slot": slot, "order": order, "until": until, "tasks": tasks}


def read_order(record: Message) -> TaskOrder:
    """The order that `order_record` wrote."""
    job = dict(record["job"])
    job["data"] = Path(job["data"])
    job["validation"] = None if job["validation"] is None else Path(job["validation"])
    job["target_modules"] = tuple(job["target_modules"])
    return TaskOrder(
        job=LoraJob(**job),
        folder=Path(record["folder"]),
        number=record["number"],
        target=record["target"],
        adapter=Path(record["adapter"]),
        known_steps=record["known_steps"],
    )


def read_result(record: Message) -> TaskResult:
    """A result from the plain values that `asdict` gives."""
    return TaskResult(
        rows=record["rows"],
        total_rows=record["total_rows"],
        tokens=record["tokens"],
        steps=record["steps"],
        state=record["state"],
        losses=tuple((s, r, t, float(x)) for s, r, t, x in record["losses"]),
        validation=tuple((e, r, float(x)) for e, r, x in record["validation"]),
        note=record["note"],
        exported=record["exported"],
    )
