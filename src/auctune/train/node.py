"""One node's trainer: the base model held once, all adapters of the slot trained on it together.

In `fused` mode rows of all jobs go through the model together; in `exact` mode each row is a pass
of its own, in a fixed shape and with deterministic algorithms.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from torch import Tensor

from auctune.domain.checks import check_count
from auctune.domain.data_size import DataSize
from auctune.domain.errors import InputError
from auctune.train.base import Base
from auctune.train.checkpoint import load_latest, save_checkpoint
from auctune.train.deterministic import deterministic, prepare_deterministic
from auctune.train.export import Exported, export_adapter
from auctune.train.job import LoraJob
from auctune.train.multilora.adapters import AdaptedModel, lora_config
from auctune.train.multilora.backends import Backend, choose_backend
from auctune.train.multilora.batches import (
    OVERHEAD_TOKENS,
    ExactPlanner,
    FusedPlanner,
    Planner,
    SequentialPlanner,
)
from auctune.train.multilora.rounds import Rounds
from auctune.train.multilora.step import ModelStep
from auctune.train.multilora.suspend import capture, restore
from auctune.train.multilora.task import TrainingTask
from auctune.train.pace import TimeLeft, Unlimited
from auctune.train.progress import Loaded, Progress
from auctune.train.rows import TokenizedDataSet
from auctune.train.tokenized_file import FileTokenizer, read_rows

CHECKPOINTS = "checkpoints"
UNLIMITED = Unlimited()

__all__ = ["Loaded", "NodeTrainer", "Progress"]


@dataclass
class _Call:
    """What one call of `train` has seen of a job."""

    started: float
    first_tokens: int
    first_step: int
    reported_step: int


@dataclass
class _Place:
    """A job on the node."""

    task: TrainingTask
    folder: Path
    call: _Call = field(default_factory=lambda: _Call(0.0, 0, 0, 0))


class NodeTrainer:
    """Trains the jobs of one node.

    Args:
        base: the model that all jobs adapt; its weights are shared, not copied.
        backend: "auto", "sequential" (one job after the other), "loop", "bmm", "grouped", or
            one's own.
        mode: "fused", or "exact": resumed training is bit-identical to uninterrupted training.
        token_budget: tokens of a micro-batch at most, padding included, in fused mode.
        overhead_tokens: tokens that take as long as a pass itself does, as measured by a profile;
            what fusing more rows into a pass, padding included, is weighed against.
        checkpointing: recompute activations in the backward pass, to save memory.

    Attributes:
        rounds: runs and counts the micro-batches.

    Raises:
        InputError: if the backend cannot run on the base's device.
    """

    def __init__(
        self,
        base: Base,
        *,
        backend: str | Backend = "auto",
        mode: Literal["fused", "exact"] = "fused",
        token_budget: int = 512,
        overhead_tokens: int = OVERHEAD_TOKENS,
        checkpointing: bool = False,
    ) -> None:
        check_count(token_budget, "token_budget", 1)
        check_count(overhead_tokens, "overhead_tokens", 0)
        if mode not in ("fused", "exact"):
            raise InputError("mode", f"{mode!r}", "'fused' or 'exact'")
        if mode == "exact":
            prepare_deterministic()
        self.base = base
        self.mode = mode
        chosen = (
            choose_backend(backend, base.device, base.dtype)
            if isinstance(backend, str)
            else backend
        )
        self.adapted = AdaptedModel(base.fresh_model(), chosen)
        self._widths: dict[str, int] = {}
        self.rounds = Rounds(
            ModelStep(self.adapted, checkpointing=checkpointing),
            self._choose_planner(backend, token_budget, overhead_tokens),
        )
        self._places: dict[str, _Place] = {}
        # Rows that were read ahead, by file and length.
        self._tokenized: dict[tuple[Path, int], FileTokenizer] = {}
        self._num_loaded = 0

    def read(self, job: LoraJob, has_time: Callable[[], bool] = lambda: True) -> bool:
        """Tokenize a job's files as far as there is time; the next call continues.

        Its rows are kept for `load`, however often it is loaded, until `forget_files` drops them.

        Args:
            job: which `load` is to take up.
            has_time: asked before each step of about a quarter of a second.

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
        """Let go of the rows of all files but those of some jobs."""
        keys = {key for job in kept for key in self._files(job)}
        self._tokenized = {key: file for key, file in self._tokenized.items() if key in keys}

    def load(self, job: LoraJob, folder: Path) -> Loaded:
        """Take up a job, from its newest whole checkpoint in `folder` if it has one.

        Raises:
            InputError: if the job, its data or its target modules cannot be used.
            CheckpointError: if its checkpoints are all damaged, or of another job or base.
        """
        if job.id in self._places:
            raise InputError("job", f"{job.id!r} is loaded already", "an id unique on its node")
        data, *others = (self._rows(key) for key in self._files(job))
        validation = others[0] if others else None
        warnings: list[str] = []
        found = load_latest(folder / CHECKPOINTS)
        name = f"job{self._num_loaded}"
        weights = self.adapted.add(name, lora_config(job, self.adapted.model), job.seed)
        try:
            task = TrainingTask(job, weights, data, validation)
            if found is not None:
                checkpoint, _, damaged = found
                warnings += damaged
                warnings += restore(task, checkpoint, self.base.digest, self.mode)
        except BaseException:
            self.adapted.remove(name)
            raise
        self._num_loaded += 1
        longest = max(data.longest, 0 if validation is None else validation.longest)
        self._widths[name] = min(self._max_length(job), longest)
        self._places[job.id] = _Place(task, folder)
        notes = self._size(data, validation).notes(job.max_length)
        return Loaded(task.cursor.done, task.cursor.total, tuple(warnings), notes)

    def train(
        self,
        targets: Mapping[str, int],
        report: Callable[[Progress], None],
        time_left: TimeLeft = UNLIMITED,
    ) -> dict[str, Progress]:
        """Train each job up to a cumulative number of rows, over all its epochs.

        A batch that a target cuts in two is kept, gradient and all, and goes on in the next call.

        Args:
            targets: rows by job; what lies beyond a job's last row does not count.
            report: called after each optimizer step of a job.
            time_left: says when to end before all targets are reached.

        Returns:
            Where each job of `targets` stands.
        """
        places = {job: self._place(job) for job in targets}
        for place in places.values():
            task = place.task
            tokens = task.tokens + task.batch_tokens
            place.call = _Call(time.monotonic(), tokens, task.steps, task.steps)
        with deterministic() if self.mode == "exact" else nullcontext():
            tasks = [(places[job].task, rows) for job, rows in targets.items()]
            while (most_rows := time_left.most_rows()) != 0:
                done = sum(task.cursor.done for task, _ in tasks)
                moved = self.rounds.run(tasks, most_rows)
                if moved is None:
                    break
                time_left.trained(sum(task.cursor.done for task, _ in tasks) - done)
                for task in moved:
                    report(self._progress(places[task.job.id]))
        return {job: self._progress(place, whole_call=True) for job, place in places.items()}

    def save(self, job_id: str, number: int) -> Path:
        """Write a checkpoint into the job's folder; returns the checkpoint's own."""
        place = self._place(job_id)
        checkpoint = capture(place.task, self.base.digest, self.mode)
        return save_checkpoint(place.folder / CHECKPOINTS, number, checkpoint)

    def export(self, job_id: str, folder: Path) -> Exported:
        """Write a job's adapter in PEFT's format, loaded back and checked on rows of its data.

        Raises:
            ExportError: if what was written is not the adapter that was trained.
        """
        task = self._place(job_id).task
        name = task.weights.name
        return export_adapter(
            self.base,
            self.adapted.config(name),
            self.weights(job_id),
            folder,
            rows=task.data.rows,
            trained_logits=lambda row: self.rounds.step.logits(name, row),
        )

    @property
    def budget(self) -> int | None:
        """Tokens of a micro-batch at most, as memory allows by now; none in exact mode."""
        planner = self.rounds.planner
        return planner.budget if isinstance(planner, FusedPlanner) else None

    def weights(self, job_id: str) -> dict[str, Tensor]:
        """A job's live adapter weights, by their names in the base."""
        weights = self._place(job_id).task.weights
        return weights.named(weights.values)

    def progress(self, job_id: str) -> Progress:
        """Where a job stands."""
        return self._progress(self._place(job_id))

    def curve(self, job_id: str) -> list[tuple[int, int, int, float]]:
        """(step, rows, tokens, loss) of each of a job's optimizer steps so far."""
        return list(self._place(job_id).task.curve)

    def task(self, job_id: str) -> TrainingTask:
        """A job's live state, for who trains it in another way than `train`."""
        return self._place(job_id).task

    def unload(self, job_id: str) -> None:
        """Let go of a job; what was not saved is lost."""
        place = self._place(job_id)
        self.adapted.remove(place.task.weights.name)
        del self._widths[place.task.weights.name]
        del self._places[job_id]

    def _choose_planner(self, backend: str | Backend, budget: int, overhead: int) -> Planner:
        if self.mode == "exact":
            return ExactPlanner(self._widths)
        kind = SequentialPlanner if backend == "sequential" else FusedPlanner
        return kind(budget, overhead)

    def _place(self, job_id: str) -> _Place:
        if job_id not in self._places:
            raise InputError("job", f"{job_id!r} is not loaded", "the id of a job on this node")
        return self._places[job_id]

    def _size(self, data: TokenizedDataSet, validation: TokenizedDataSet | None) -> DataSize:
        context = self.base.context_tokens
        size = data.size(context)
        return size if validation is None else replace(size, validation=validation.size(context))

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

    def _progress(self, place: _Place, *, whole_call: bool = False) -> Progress:
        task, call = place.task, place.call
        since = call.first_step if whole_call else call.reported_step
        call.reported_step = task.steps
        seconds = max(time.monotonic() - call.started, 1e-9)
        tokens = task.tokens + task.batch_tokens
        return Progress(
            job=task.job.id,
            rows=task.cursor.done,
            total_rows=task.cursor.total,
            tokens=tokens,
            steps=task.steps,
            loss=task.curve[-1][3] if task.curve else None,
            losses=tuple((step, rows, loss) for step, rows, _, loss in task.curve[since:]),
            tokens_per_second=(tokens - call.first_tokens) / seconds,
            memory_gb=task.optimizer.num_bytes / 1e9,
            validation=tuple(task.validation),
            state=task.state,
            note=task.note,
        )
