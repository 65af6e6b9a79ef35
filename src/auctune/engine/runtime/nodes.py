"""Nodes: settings of their workers, and the work of a task in a slot from plain settings."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from auctune.domain import AuctuneError
from auctune.domain.epoch_metrics import EpochMetrics
from auctune.engine.messages.node import NODE_MESSAGES, TaskQuota
from auctune.engine.runtime.worker import WorkerSpec
from auctune.train.adapter_files import read_epochs
from auctune.train.job import LoraJob

NODE_WORKER = "auctune.engine.workers.node"


class NodeError(AuctuneError):
    """A node's worker ended, or could not do what was requested."""


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """Argument of a node's worker.

    Attributes:
        base: the base model's name.
        cache: folder of bases that are built here.
        device, dtype: where and how it computes.
        num_devices: that it computes on, `device` the first; each has a process.
        mode: of the trainer, "fused" or "exact".
        threads: of torch on a CPU, in each process.
        token_budget: as of `MultiLoraTrainer`.
        backend: who multiplies the adapters' matrices, as of `MultiLoraTrainer`.
        gradient_checkpointing: as of `MultiLoraTrainer`'s `checkpointing`.
        measure_seconds: time limit where it is to measure its device.
        niceness: of the process, 0 to 19: the larger, the less of shared cores it gets.
        log: file of its standard error; each further device has one beside it; "": none.
    """

    base: str
    cache: str
    device: str = "cpu"
    num_devices: int = 1
    dtype: str = "float32"
    mode: str = "fused"
    threads: int = 1
    token_budget: int = 512
    backend: str = "auto"
    gradient_checkpointing: int = 0
    measure_seconds: float = 60.0
    niceness: int = 0
    log: str = ""

    def device_log(self, number: int) -> Path | None:
        """Return the log of a further device's process; `number` is from 1."""
        log = Path(self.log)
        return log.with_name(f"{log.stem}-device-{number + 1}{log.suffix}") if self.log else None


def node_worker(
    settings: NodeSettings, log: Path | None = None, module: str = NODE_WORKER
) -> WorkerSpec:
    """Return what the worker of a node runs."""
    return WorkerSpec(
        module,
        asdict(replace(settings, log="" if log is None else str(log))),
        NODE_MESSAGES,
        settings.device,
        log,
        settings.niceness,
        num_devices=settings.num_devices,
    )


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
