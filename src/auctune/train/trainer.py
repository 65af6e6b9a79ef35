"""Trainer of one node: the base model held once, all adapters of the slot trained on it together.

In `fused` mode rows of all jobs go through the model together; in `exact` mode each row, or each
fixed part of a job's optimizer batch, is a pass of its own, in a fixed shape and with deterministic
algorithms.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import torch
from peft import LoraConfig
from torch import Tensor

from auctune.domain.checks import check_count
from auctune.domain.epoch_metrics import EpochMetrics
from auctune.domain.errors import InputError
from auctune.files.atomic import clean_staging, commit_folder, remove_folder, staging_folder
from auctune.train.adapter_files import EPOCHS, epoch_folders
from auctune.train.attempts import check_attempt
from auctune.train.base import Base
from auctune.train.checkpoint import CHECKPOINTS, checkpoint_id, load_latest, save_checkpoint
from auctune.train.export import Exported, export_adapter, write_adapter
from auctune.train.job import CurvePoint, Loaded, LoraJob, Progress
from auctune.train.multilora.adapters import AdaptedModel, lora_config
from auctune.train.multilora.backends import Backend, choose_backend
from auctune.train.multilora.batching import MicroBatcher, RowBatcher, TokenBudgetBatcher
from auctune.train.multilora.device_group import DeviceGroup
from auctune.train.multilora.step import ForwardBackward
from auctune.train.multilora.task import TrainingTask, data_size
from auctune.train.multilora.train_loop import TrainLoop
from auctune.train.reproducible import deterministic, prepare_deterministic
from auctune.train.rows import TokenizedDataSet
from auctune.train.task_state import capture_state, copy_to_host, restore_state
from auctune.train.time_budget import NO_TIME_LIMIT, TimeBudget
from auctune.train.tokenized_file import FileTokenizer, read_rows


@dataclass
class _CallStats:
    """A job at the start of a call of `train`, and the steps reported since."""

    started: float
    first_tokens: int
    first_step: int
    reported_step: int


@dataclass
class _LoadedJob:
    """A job on the node.

    Attributes:
        checkpoint: `checkpoint_id` of the one that it was last loaded from, or saved as.
    """

    task: TrainingTask
    folder: Path
    checkpoint: str | None
    call: _CallStats = field(default_factory=lambda: _CallStats(0.0, 0, 0, 0))


@dataclass(frozen=True)
class _EpochFiles:
    """Adapters of a job's last epochs, to be written.

    Attributes:
        base, config: of the adapters.
        adapters: those that were not written yet: metrics, and weights by their names in the base.
        kept: numbers of the epochs whose adapters stay.
    """

    base: Base
    config: LoraConfig
    adapters: Sequence[tuple[EpochMetrics, Mapping[str, Tensor]]]
    kept: range

    def write(self, folder: Path) -> None:
        """Write each into a folder by its number."""
        folder.mkdir(parents=True, exist_ok=True)
        clean_staging(folder)
        for metrics, weights in self.adapters:
            target = folder / f"{metrics.epoch}"
            with staging_folder(target) as unfinished:
                write_adapter(self.base, self.config, weights, unfinished, metrics)
                commit_folder(unfinished, target)

    def remove_others(self, folder: Path) -> None:
        """Remove those that are not to stay.

        A process that was killed before its checkpoint leaves epochs that are trained again.
        """
        for epoch, path in epoch_folders(folder):
            if epoch not in self.kept:
                remove_folder(path)


class MultiLoraTrainer:
    """Trains the jobs of one node.

    Args:
        base: the model that all jobs adapt; its weights are shared, not copied.
        backend: "auto", "triton", "grouped", "bmm", "loop", or an instance.
        mode: "fused", or "exact": resumed training is bit-identical to uninterrupted training.
        token_budget: maximum tokens of a micro-batch, padding included, in fused mode; of those
            of all devices together that compute at the same time.
        exact_budget: the same in exact mode, unless it is a single row. With more than 0, results
            are bit-identical only if targets are ends of optimizer batches.
        checkpointing: as of `ForwardBackward`.
        kept_epochs: number of a job's last epochs whose adapters are written, in PEFT's format, as
            `epochs/N` into its folder.
        devices: of the node, which no other trainer uses from now on; `None`: that of the base.

    Attributes:
        loop: runs and counts the micro-batches.

    Raises:
        InputError: if the backend cannot run on the base's device, or if there are several devices
            in exact mode, where sums would depend on which rows a call has trained together.
    """

    def __init__(
        self,
        base: Base,
        *,
        backend: str | Backend = "auto",
        mode: Literal["fused", "exact"] = "fused",
        token_budget: int = 512,
        exact_budget: int = 0,
        checkpointing: int = 0,
        kept_epochs: int = 0,
        devices: DeviceGroup | None = None,
    ) -> None:
        check_count(token_budget, "token_budget", 1)
        if mode not in ("fused", "exact"):
            raise InputError("mode", f"{mode!r}", "'fused' or 'exact'")
        devices = devices or DeviceGroup()
        if mode == "exact":
            if devices.num_devices > 1:
                raise InputError("mode", f"'exact' on {devices.num_devices} devices", "'fused'")
            prepare_deterministic()
        self.base = base
        self.mode = mode
        self._kept_epochs = kept_epochs
        chosen = (
            choose_backend(backend, base.device, base.dtype)
            if isinstance(backend, str)
            else backend
        )
        self.adapted = AdaptedModel(base.fresh_model(), chosen)
        step = ForwardBackward(
            self.adapted, checkpointing=checkpointing, uses_graphs=mode == "fused"
        )
        batcher: MicroBatcher = (
            RowBatcher(exact_budget, is_packed=step.is_packed)
            if mode == "exact"
            else TokenBudgetBatcher(
                max(1, token_budget // devices.num_devices), is_packed=step.is_packed
            )
        )
        devices.clear()
        self.loop = TrainLoop(step, batcher, devices)
        self._places: dict[str, _LoadedJob] = {}
        # Rows that were read ahead, by file and length.
        self._tokenized: dict[tuple[Path, int], FileTokenizer] = {}
        self._num_loaded = 0

    def read(self, job: LoraJob, has_time: Callable[[], bool] = lambda: True) -> bool:
        """Tokenize a job's files as far as there is time; the next call continues.

        Its rows are kept for `load`, however often it is loaded, until `forget_files` drops them.

        Args:
            job: to be loaded later.
            has_time: called before each step of about a quarter of a second.

        Returns:
            Whether all of its rows are tokenized.

        Raises:
            InputError: if the data cannot be used.
        """
        for key in self._files(job):
            file = self._tokenized.get(key)
            if file is None:
                path, max_length = key
                file = self._tokenized[key] = FileTokenizer(
                    path, self.base.tokenizer, max_length, self.base.context_tokens
                )
            try:
                while file.data is None:
                    if not has_time():
                        return False
                    file.step()
            except BaseException:
                # What failed midway must not pass for the whole file.
                del self._tokenized[key]
                raise
        return True

    def forget_files(self, kept: Iterable[LoraJob]) -> None:
        """Drop the rows of all files but those of some jobs."""
        keys = {key for job in kept for key in self._files(job)}
        self._tokenized = {key: file for key, file in self._tokenized.items() if key in keys}

    def load(self, job: LoraJob, folder: Path) -> Loaded:
        """Load a job, from its newest complete checkpoint in `folder` if it has one.

        Raises:
            InputError: if the job, its data, its target modules or the adapter that it starts from
                cannot be used.
            CheckpointError: if its checkpoints are all damaged, or of another job, base or format.
            OSError: if a checkpoint cannot be read now.
        """
        if job.id in self._places:
            raise InputError("job", f"{job.id!r} is loaded already", "an id unique on its node")
        data, *others = (self._rows(key) for key in self._files(job))
        validation = others[0] if others else None
        for name, rows in zip(("data", "validation"), (data, *others), strict=False):
            rows.size(None).check_method(name, job.method)
        warnings: list[str] = []
        found = load_latest(folder / CHECKPOINTS)
        name = f"job{self._num_loaded}"
        weights = self.adapted.add(name, lora_config(job, self.adapted.model), job.seed)
        try:
            self.loop.devices.add(weights)
            task = TrainingTask(job, weights, data, validation, kept_epochs=self._kept_epochs)
            if found is None or task.rows.has_preferences:
                task.rows.factory.load_start(self.base.digest, job.start_from)
            if found is not None:
                checkpoint, _, damaged = found
                warnings += damaged
                warnings += restore_state(task, checkpoint, self.base.digest, self.mode)
        except BaseException:
            self._remove(name)
            raise
        self._num_loaded += 1
        of = None if found is None else checkpoint_id(folder / CHECKPOINTS, found[1])
        self._places[job.id] = _LoadedJob(task, folder, of)
        notes = data_size(data, validation, self.base.context_tokens).notes(job.max_length)
        return Loaded(task.done_rows, task.total_rows, tuple(warnings), notes)

    def holds(self, job: LoraJob, folder: Path) -> bool:
        """Return whether a job is loaded, in the state of the newest checkpoint in its folder.

        It may have been trained beyond that state since.
        """
        place = self._places.get(job.id)
        return (
            place is not None
            and (place.task.job, place.folder) == (job, folder)
            and place.checkpoint is not None
            and place.checkpoint == checkpoint_id(folder / CHECKPOINTS)
        )

    @property
    def loaded(self) -> frozenset[str]:
        """Ids of the jobs that are loaded."""
        return frozenset(self._places)

    def train(
        self,
        targets: Mapping[str, int],
        report: Callable[[Progress], None],
        time_budget: TimeBudget = NO_TIME_LIMIT,
    ) -> dict[str, Progress]:
        """Train each job up to a cumulative number of rows, over all its epochs.

        Rows of validation data, which are evaluated at the end of each epoch, count as well. A
        batch that a target cuts in two is kept with its gradient, and continues in the next call;
        so does a validation.

        Args:
            targets: rows by job, up to a job's last row.
            report: called after each optimizer step of a job.
            time_budget: ends training before all targets are reached.

        Returns:
            The progress of each job of `targets`.
        """
        places = {job: self._place(job) for job in targets}
        for place in places.values():
            task = place.task
            tokens = task.tokens + task.batch_tokens
            place.call = _CallStats(time.monotonic(), tokens, task.steps, task.steps)
        with deterministic() if self.mode == "exact" else nullcontext():
            tasks = [(places[job].task, rows) for job, rows in targets.items()]
            while (max_rows := time_budget.max_rows()) != 0:
                done = sum(task.done_cost for task, _ in tasks)
                moved = self.loop.run(tasks, max_rows)
                if moved is None:
                    break
                # Its last backward pass may still be running.
                if self.base.device.type == "cuda":
                    torch.cuda.synchronize(self.base.device)
                # A row of an estimate takes about as long as one that is trained.
                rows = sum(task.done_cost for task, _ in tasks) - done + self.loop.num_estimated
                time_budget.record(rows)
                for task in moved:
                    report(self._progress(places[task.job.id]))
        return {job: self._progress(place, whole_call=True) for job, place in places.items()}

    def save(self, job_id: str, number: int, attempt: int | None = None) -> Path:
        """Write a checkpoint into the job's folder; return the checkpoint's own folder.

        Args:
            job_id: of a loaded job.
            number: as of `save_checkpoint`.
            attempt: that must be the job's newest one; `None`: attempts are not counted.

        Raises:
            CheckpointError: as `save_checkpoint`, or if the attempt was replaced.
        """
        return self.snapshot(job_id, number, attempt)()

    def snapshot(self, job_id: str, number: int, attempt: int | None = None) -> Callable[[], Path]:
        """Copy all that a job goes on from; return what writes it, as `save` does.

        It may run on another thread, while the job is trained further.
        """
        place = self._place(job_id)
        task, epochs = place.task, None
        if self._kept_epochs:
            epochs = self._epoch_files(task)
            task.epoch_adapters = []
        checkpoint = capture_state(task, self.base.digest, self.mode)
        checkpoint.tensors = copy_to_host(checkpoint.tensors)

        def write() -> Path:
            # Before anything of the attempt that replaced this one is deleted.
            if attempt is not None:
                check_attempt(place.folder, attempt)
            if epochs is not None:
                epochs.write(place.folder / EPOCHS)
                epochs.remove_others(place.folder / EPOCHS)
            path = save_checkpoint(place.folder / CHECKPOINTS, number, checkpoint)
            place.checkpoint = checkpoint_id(place.folder / CHECKPOINTS, number)
            return path

        return write

    def export(self, job_id: str, folder: Path) -> Exported:
        """Write a job's adapter in PEFT's format, verified by loading it.

        Raises:
            ExportError: if what was written is not the adapter that was trained.
        """
        task = self._place(job_id).task
        name = task.weights.name
        return export_adapter(
            self.base,
            task.weights.config,
            self.weights(job_id),
            folder,
            rows=task.rows.data.rows,
            trained_logits=lambda row: self.loop.step.logits(name, row),
        )

    def write_epochs(self, job_id: str, folder: Path) -> None:
        """Write the adapters of a job's last epochs that were not written by `save`.

        Args:
            job_id: of a loaded job.
            folder: in which each gets a folder by its number.
        """
        self._epoch_files(self._place(job_id).task).write(folder)

    def _epoch_files(self, task: TrainingTask) -> "_EpochFiles":
        validation = {epoch: (loss, accuracy) for epoch, loss, accuracy in task.validation}
        adapters = []
        for kept in task.epoch_adapters:
            means = validation.get(kept.epoch, (None, None))
            metrics = EpochMetrics(
                kept.epoch, kept.step, kept.train_loss, kept.train_accuracy, *means
            )
            adapters.append((metrics, task.weights.named(kept.values)))
        ended = task.num_ended_epochs
        kept_numbers = range(ended - self._kept_epochs + 1, ended + 1)
        return _EpochFiles(self.base, task.weights.config, adapters, kept_numbers)

    @property
    def budget(self) -> int | None:
        """Maximum tokens of a micro-batch, as memory has allowed so far; `None` in exact mode.

        As of `token_budget`, of all devices together.
        """
        batcher, num_devices = self.loop.batcher, self.loop.devices.num_devices
        return batcher.budget * num_devices if isinstance(batcher, TokenBudgetBatcher) else None

    def weights(self, job_id: str) -> dict[str, Tensor]:
        """Return a job's live adapter weights, by their names in the base."""
        weights = self._place(job_id).task.weights
        return weights.named(weights.values)

    def progress(self, job_id: str) -> Progress:
        """Return the progress of a job."""
        return self._progress(self._place(job_id))

    def curve(self, job_id: str) -> list[CurvePoint]:
        """Return the points of a job's optimizer steps so far."""
        return list(self._place(job_id).task.curve)

    def task(self, job_id: str) -> TrainingTask:
        """Return a job's live state, to train it in another way than by `train`."""
        return self._place(job_id).task

    def unload(self, job_id: str) -> None:
        """Unload a job; what was not saved is lost."""
        place = self._place(job_id)
        self._remove(place.task.weights.name)
        del self._places[job_id]

    def _remove(self, adapter: str) -> None:
        self.adapted.remove(adapter)
        self.loop.devices.remove([adapter])

    def _place(self, job_id: str) -> _LoadedJob:
        if job_id not in self._places:
            raise InputError("job", f"{job_id!r} is not loaded", "the id of a job on this node")
        return self._places[job_id]

    def _max_length(self, job: LoraJob) -> int:
        return min(job.max_length, self.base.context_tokens or job.max_length)

    def _files(self, job: LoraJob) -> list[tuple[Path, int]]:
        """Return the keys of a job's rows: those of its data, and of its validation data."""
        paths = [job.data] if job.validation is None else [job.data, job.validation]
        return [(path, self._max_length(job)) for path in paths]

    def _rows(self, key: tuple[Path, int]) -> TokenizedDataSet:
        ahead = self._tokenized.get(key)
        if ahead is not None and ahead.data is not None:
            return ahead.data
        return read_rows(key[0], self.base.tokenizer, key[1], self.base.context_tokens)

    def _progress(self, place: _LoadedJob, *, whole_call: bool = False) -> Progress:
        task, call = place.task, place.call
        since = call.first_step if whole_call else call.reported_step
        call.reported_step = task.steps
        seconds = max(time.monotonic() - call.started, 1e-9)
        tokens = task.tokens + task.batch_tokens
        return Progress(
            job=task.job.id,
            rows=task.done_rows,
            total_rows=task.total_rows,
            tokens=tokens,
            steps=task.steps,
            loss=task.curve[-1][3] if task.curve else None,
            losses=tuple(task.curve[since:]),
            tokens_per_second=(tokens - call.first_tokens) / seconds,
            memory_gb=(task.optimizer.num_bytes + task.weights.num_cast_bytes) / 1e9,
            validation=tuple(
                (epoch, epoch * task.counts.num_rows, loss, accuracy)
                for epoch, loss, accuracy in task.validation
            ),
            state=task.state,
            note=task.note,
        )
