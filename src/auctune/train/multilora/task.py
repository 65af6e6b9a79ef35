"""One job in training: its adapter, its optimizer and its position in the data.

An optimizer batch is the next `batch_size` rows of an epoch, or the remaining ones. The gradient
is the mean over the target tokens of the whole batch, however the batch is cut into passes:

    g = 1/T * sum over rows of the batch, over target tokens n of a row, of  grad l_n

with T the target tokens of the batch, known before its first row is trained. A job of method `dpo`
has pairs for rows, T is their number, and l the loss of a pair (auctune.train.multilora.step).

A checkpoint has all that the result of a job depends on:

| part | kept as |
| --- | --- |
| adapter, moments, gradient of a batch partly trained, best epoch's adapter | `PART/PARAMETER` |
| steps of optimizer and schedule | `steps` |
| position in the data, order of the epoch | `cursor` |
| random state | the seed in `job` and the position: masks are keyed by them |
| sums and tokens of the batch so far, totals, curve, validation | under their names |
| rows and sums of a validation that is under way | `validating` |
| adapters of the last epochs that were not written yet | `epoch/NUMBER/PARAMETER`, `epochs` |
| what it must match again | `job` with the digest of the adapter that it started from, \
`base_digest`, `data_digest`; `versions` only warn |
"""

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from auctune.domain.data_size import DataSize, split_rows
from auctune.domain.errors import CheckpointError
from auctune.train.checkpoint import Checkpoint
from auctune.train.epoch_sampler import EpochSampler
from auctune.train.host import training_libraries
from auctune.train.job import CurvePoint, JobState, LoraJob
from auctune.train.multilora.adapters import AdapterWeights, load_start
from auctune.train.multilora.batching import BatchRow
from auctune.train.multilora.dropout import row_key
from auctune.train.multilora.optimizer import AdapterOptimizer
from auctune.train.rows import TokenizedDataSet, TokenizedRow, split_pair

VALIDATION_BATCHES = 8
"""Batches of rows that a round validates at most: a request to stop waits for a round."""


@dataclass(frozen=True, slots=True)
class EpochAdapter:
    """An adapter as it was at the end of an epoch.

    Attributes:
        epoch: its number, from 1.
        step, train_loss, train_accuracy: of the epoch's last optimizer step.
        values: float32 [num_parameters], on the CPU.
    """

    epoch: int
    step: int
    train_loss: float
    train_accuracy: float
    values: Tensor


@dataclass
class TrainingTask:
    """A job's state while it is on a node.

    Attributes:
        sampler: its `done` counts the rows trained.
        batch_sums: float32 [2], of the batch's target tokens so far: their losses, their hits.
        batch_tokens, tokens: of the batch so far; of all full batches before.
        curve: (step, rows, tokens, loss, accuracy) of each optimizer step; the accuracy is the
            share of target tokens that were the likeliest one.
        validation: (epoch, loss, accuracy) at each epoch's end.
        num_validated: rows of the validation data that were evaluated, over all epochs.
        validation_sums: [2], losses and hits of the validation that is under way.
        start: float32 [num_parameters], weights of the adapter that a job with pairs started from;
            else `None`.
        references: log-probabilities of the targets of both answers of pairs under the base, with
            the adapter of `start` if there is one, by place in the data; those of the validation
            data follow after the last row's place. They are constants, computed when they are
            needed and unknown, as after a restart.
        best: float32 [num_parameters], on the CPU: weights of the epoch of lowest validation loss,
            of a job with patience; else `None`.
        kept_epochs: number of the last epochs whose adapters are kept.
        epoch_adapters: those that have not been written yet, the oldest first.
    """

    job: LoraJob
    weights: AdapterWeights
    data: TokenizedDataSet
    validation_data: TokenizedDataSet | None = None
    max_length: int = 0
    steps: int = 0
    tokens: int = 0
    batch_tokens: int = 0
    curve: list[CurvePoint] = field(default_factory=list)
    validation: list[tuple[int, float, float]] = field(default_factory=list)
    num_validated: int = 0
    validation_sums: list[float] = field(default_factory=lambda: [0.0, 0.0])
    start: Tensor | None = None
    references: dict[int, tuple[float, float]] = field(default_factory=dict)
    best: Tensor | None = None
    kept_epochs: int = 0
    epoch_adapters: list[EpochAdapter] = field(default_factory=list)
    state: JobState = "training"
    note: str = ""
    sampler: EpochSampler = field(init=False)
    optimizer: AdapterOptimizer = field(init=False)
    batch_sums: Tensor = field(init=False)
    _batch: tuple[int, tuple[int, ...]] = field(init=False, default=(-1, ()))

    def __post_init__(self) -> None:
        self.sampler = EpochSampler(len(self.data), self.job.epochs, self.job.seed)
        self._lookahead = EpochSampler(len(self.data), self.job.epochs, self.job.seed)
        self.optimizer = AdapterOptimizer(
            self.job, self.weights.values, self.weights.gradients, self.num_steps
        )
        self.batch_sums = torch.zeros(2, device=self.weights.values.device)
        has_validation = self.validation_data is not None
        self._validation_cost = self.size(None).validation_row_cost if has_validation else 0.0

    def size(self, context_tokens: int | None) -> DataSize:
        """Return the size of the data and the validation data, for a base of that context."""
        size = self.data.size(context_tokens)
        if self.validation_data is None:
            return size
        return replace(size, validation=self.validation_data.size(context_tokens))

    @property
    def num_steps(self) -> int:
        """Optimizer steps of the whole job."""
        return self.job.epochs * -(-len(self.data) // self.job.batch_size)

    @property
    def batch_start(self) -> int:
        """Rows before the current batch, over all epochs."""
        in_epoch = self.sampler.done % len(self.data)
        return self.sampler.done - in_epoch % self.job.batch_size

    @property
    def batch_size(self) -> int:
        """Rows of the current batch."""
        in_epoch = self.batch_start % len(self.data)
        return min(self.job.batch_size, len(self.data) - in_epoch)

    @property
    def batch_remaining(self) -> int:
        """Remaining rows of the current batch."""
        return self.batch_start + self.batch_size - self.sampler.done

    @property
    def num_validation_rows(self) -> int:
        """Rows of the validation data."""
        return 0 if self.validation_data is None else len(self.validation_data)

    @property
    def done_rows(self) -> int:
        """Rows trained, and evaluated at the ends of epochs, so far."""
        return self.sampler.done + self.num_validated

    @property
    def total_rows(self) -> int:
        """Rows to train and to evaluate, over all epochs."""
        return self.job.epochs * (len(self.data) + self.num_validation_rows)

    @property
    def is_validating(self) -> bool:
        """True while the next rows are those of the validation data."""
        is_between_epochs = self.sampler.done % len(self.data) == 0
        return is_between_epochs and self.validation_remaining > 0

    @property
    def validation_remaining(self) -> int:
        """Rows of the validation data still to be evaluated for the epochs trained so far."""
        return self.num_epochs * self.num_validation_rows - self.num_validated

    def remaining_rows(self, target: int) -> int:
        """Return the rows from here to a cumulative number; 0 once the job has ended."""
        if self.state != "training":
            return 0
        return max(0, min(target, self.total_rows) - self.done_rows)

    def remaining_rounds(self, target: int) -> int:
        """Return the rounds of whole batches from here to a cumulative number of rows."""
        rows, batch = self.remaining_rows(target), self.job.batch_size
        last = split_rows(self.done_rows + rows, len(self.data), self.num_validation_rows)[1]
        num_validated = min(rows, max(0, last - self.num_validated))
        rounds = -(-(rows - num_validated) // batch)
        return rounds - (-num_validated // (VALIDATION_BATCHES * batch))

    @property
    def round_remaining(self) -> int:
        """Rows of the current batch, or of the validation data, that a round may take."""
        if self.is_validating:
            return min(self.validation_remaining, VALIDATION_BATCHES * self.job.batch_size)
        return self.batch_remaining

    @property
    def row_cost(self) -> float:
        """Cost of one of the next rows, in rows trained."""
        return self._validation_cost if self.is_validating else 1

    @property
    def done_cost(self) -> float:
        """Cost of all rows so far, in rows trained."""
        return self.sampler.done + self._validation_cost * self.num_validated

    @property
    def total_cost(self) -> float:
        """Cost of all rows of all epochs, in rows trained."""
        num_validated = self.job.epochs * self.num_validation_rows
        return self.sampler.total + self._validation_cost * num_validated

    def next_rows(self, count: int) -> list[BatchRow]:
        """Return the next `count` rows, all of the current batch or of the validation data."""
        if self.is_validating:
            return self._next_validation_rows(count)
        assert 0 < count <= self.batch_remaining
        weight = 1 / self.num_batch_targets
        return [
            row
            for place, index in enumerate(self._indices(count), self.sampler.done)
            for row in self._batch_rows(index, self.data.rows[index], place, weight)
        ]

    def _next_validation_rows(self, count: int) -> list[BatchRow]:
        return [
            one
            for index, row in self._validation_rows(count).items()
            for one in self._batch_rows(index, row, 0, 1.0)
        ]

    def _validation_rows(self, count: int) -> dict[int, TokenizedRow]:
        """Return the next `count` rows of the validation data by their places; see `references`."""
        assert self.validation_data is not None
        first = self.num_validated % self.num_validation_rows
        rows = self.validation_data.rows[first : first + count]
        return dict(enumerate(rows, start=len(self.data) + first))

    def rows_without_reference(self, count: int) -> dict[int, list[BatchRow]]:
        """Return the pairs among the next `count` rows, as of `next_rows`, without references."""
        if not self.has_pairs:
            return {}
        if self.is_validating:
            rows = self._validation_rows(count)
        else:
            rows = {index: self.data.rows[index] for index in self._indices(count)}
        return {
            index: self._pair_rows(row, (0, 0), 1.0, (0.0, 0.0))
            for index, row in rows.items()
            if index not in self.references
        }

    def seek(self, row: int) -> None:
        """Go to a row of the job, in the order of `done_rows`."""
        counts = split_rows(row, len(self.data), self.num_validation_rows)
        self.sampler.done, self.num_validated = counts

    def load_start(self, base_digest: str) -> None:
        """Take over the weights of the adapter that the job starts from, if there is one.

        Raises:
            InputError: as `auctune.train.multilora.adapters.load_start`.
        """
        load_start(self.weights, self.job, base_digest)
        if self.has_pairs and self.job.start_from is not None:
            self.start = self.weights.values.clone()

    def advance(self, count: int) -> bool:
        """Count the next `count` rows as trained; return whether they complete their batch."""
        remaining = self.batch_remaining - count
        self.batch_tokens += sum(len(self.data.rows[index]) for index in self._indices(count))
        self.sampler.done += count
        return remaining == 0

    def restart_batch(self, start: int) -> None:
        """Discard what has been trained of the batch that begins at `start`."""
        self.sampler.done = start
        self.clear_batch()
        self.weights.gradients.zero_()

    def take_step(self, loss: float, accuracy: float) -> None:
        """Take an optimizer step at the end of a batch of that mean loss and accuracy."""
        self.optimizer.step(self.steps)
        self.steps += 1
        self.tokens += self.batch_tokens
        self.clear_batch()
        self.curve.append((self.steps, self.sampler.done, self.tokens, loss, accuracy))
        if self.sampler.done % len(self.data) == 0 and not self.is_validating:
            self._end_epoch()

    def clear_batch(self) -> None:
        """Reset the counts of the batch."""
        self.batch_tokens = 0
        self.batch_sums.zero_()

    @property
    def num_epochs(self) -> int:
        """Epochs whose rows have all been trained."""
        return self.sampler.done // len(self.data)

    @property
    def num_ended_epochs(self) -> int:
        """Epochs whose rows have all been trained, and their validation data evaluated."""
        return self.num_epochs - (self.validation_remaining > 0)

    def count_validated(self, count: int, loss: float, hits: float) -> None:
        """Count rows of the validation data as evaluated; the last of them end the epoch.

        Args:
            count: of rows.
            loss, hits: sums over their target tokens, or pairs.
        """
        assert count <= self.validation_remaining
        self.num_validated += count
        self.validation_sums = [self.validation_sums[0] + loss, self.validation_sums[1] + hits]
        if not self.validation_remaining:
            targets = self.num_validation_targets
            means = [total / targets for total in self.validation_sums]
            self.validation_sums = [0.0, 0.0]
            self._end_epoch(means[0], means[1])

    def _end_epoch(self, *validation: float) -> None:
        """End an epoch, with the mean loss and accuracy of its validation, if it has any."""
        # Before validation counts, which may go back to the best epoch's weights.
        self._keep_epoch()
        if self.sampler.done == self.sampler.total:
            self.state = "done"
        if validation:
            self._note_validation(*validation)

    def _keep_epoch(self) -> None:
        """Keep the adapter as it is, at the end of an epoch."""
        if self.kept_epochs:
            step, _, _, loss, accuracy = self.curve[-1]
            values = self.weights.values.detach().to("cpu", copy=True)
            kept = EpochAdapter(self.num_epochs, step, loss, accuracy, values)
            self.epoch_adapters = [*self.epoch_adapters, kept][-self.kept_epochs :]

    def _note_validation(self, loss: float, accuracy: float) -> None:
        """Record an epoch's validation; end a job that is out of patience, with its best."""
        self.validation.append((self.num_epochs, loss, accuracy))
        if not self.job.patience:
            return
        losses = [value for _, value, _ in self.validation]
        since_best = len(losses) - 1 - losses.index(min(losses))
        if since_best == 0:
            self.best = self.weights.values.detach().to("cpu", copy=True)
        if since_best >= self.job.patience and self.state == "training":
            self.state = "done"
            self.note = f"stopped early: no better validation loss in {since_best} epochs"
        if self.state == "done" and since_best and self.best is not None:
            self.weights.values.copy_(self.best)
            best = self.validation[-1 - since_best][0]
            kept = f"the weights are those of epoch {best}, the best one"
            self.note = f"{self.note}; {kept}" if self.note else kept

    def fail(self, reason: str) -> None:
        """End the job; the adapter stays as it was after the last good step."""
        self.state = "failed"
        self.note = reason
        self.clear_batch()
        self.weights.gradients.zero_()

    @property
    def has_pairs(self) -> bool:
        """Whether rows are pairs of answers."""
        return self.job.method == "dpo"

    @property
    def num_validation_targets(self) -> int:
        """T of the validation data."""
        assert self.validation_data is not None
        if self.has_pairs:
            return len(self.validation_data)
        return self.validation_data.num_trained_tokens

    @property
    def num_batch_targets(self) -> int:
        """T of the current batch."""
        if self.has_pairs:
            return self.batch_size
        return sum(self.data.rows[index].num_trained_tokens for index in self._batch_indices())

    def _indices(self, count: int) -> tuple[int, ...]:
        """Return the places in the data of the next `count` rows, all of the current batch."""
        offset = self.sampler.done - self.batch_start
        return self._batch_indices()[offset : offset + count]

    def _batch_indices(self) -> tuple[int, ...]:
        start = self.batch_start
        if self._batch[0] != start:
            self._lookahead.done = start
            self._batch = (start, tuple(self._lookahead.next_indices(self.batch_size)))
        return self._batch[1]

    def _batch_rows(
        self, index: int, row: TokenizedRow, place: int, weight: float
    ) -> list[BatchRow]:
        """Return the row, or both of a pair, at a place in the job's stream of rows."""
        seed = self.job.seed
        if self.has_pairs:
            keys = row_key(seed, 2 * place), row_key(seed, 2 * place + 1)
            return self._pair_rows(row, keys, weight, self.references[index])
        key = row_key(seed, place)
        return [BatchRow(self.weights.name, key, row.input_ids, row.labels, weight)]

    def _pair_rows(
        self,
        pair: TokenizedRow,
        keys: tuple[int, int],
        weight: float,
        references: tuple[float, float],
    ) -> list[BatchRow]:
        name, beta = self.weights.name, self.job.beta
        return [
            BatchRow(name, key, row.input_ids, row.labels, weight, beta, reference)
            for row, key, reference in zip(split_pair(pair), keys, references, strict=True)
        ]


@contextmanager
@torch.no_grad()
def reference_adapters(tasks: Iterable[TrainingTask]) -> Iterator[Collection[str]]:
    """Set adapters back to the weights that their jobs with pairs started from, for a block.

    Yields:
        Names of these adapters; the references of other jobs are computed by the base alone.
    """
    kept = [
        (task.weights, task.start, task.weights.values.clone())
        for task in tasks
        if task.start is not None
    ]
    try:
        for weights, start, _ in kept:
            weights.values.copy_(start)
        yield {weights.name for weights, _, _ in kept}
    finally:
        for weights, _, trained in kept:
            weights.values.copy_(trained)


# When a job stops may change, and so may the paths of its files.
VOLATILE_FIELDS = ("patience",)


def capture_state(task: TrainingTask, base_digest: str, mode: str) -> Checkpoint:
    """Return all that `restore_state` needs to continue bit-identically."""
    tensors = {
        f"{part}/{name}": tensor
        for part, flat in _flat_tensors(task).items()
        for name, tensor in task.weights.named(flat).items()
    }
    state = {
        "job": identity_of(task.job),
        "base_digest": base_digest,
        "data_digest": task.data.digest,
        "mode": mode,
        "versions": training_libraries(),
        "cursor": task.sampler.state(),
        "steps": task.steps,
        "tokens": task.tokens,
        "batch_tokens": task.batch_tokens,
        "batch_sums": task.batch_sums.tolist(),
        "curve": task.curve,
        "validation": task.validation,
        **_validating_state(task),
        **_epochs_state(task),
        "state": task.state,
        "note": task.note,
    }
    return Checkpoint(tensors, state)


def _validating_state(task: TrainingTask) -> dict[str, Any]:
    """Return the state of a validation that is under way; empty if none is."""
    if task.validation_data is None or not task.num_validated % task.num_validation_rows:
        return {}
    rows = task.num_validated % task.num_validation_rows
    digest = task.validation_data.digest
    return {"validating": {"rows": rows, "sums": task.validation_sums, "digest": digest}}


def _epochs_state(task: TrainingTask) -> dict[str, Any]:
    """Return the metrics of adapters that were not written yet; empty if there are none."""
    epochs = [
        [one.epoch, one.step, one.train_loss, one.train_accuracy] for one in task.epoch_adapters
    ]
    return {"epochs": epochs} if epochs else {}


def restore_state(
    task: TrainingTask, checkpoint: Checkpoint, base_digest: str, mode: str
) -> tuple[str, ...]:
    """Bring a new task to the state of a checkpoint.

    Returns:
        Warnings: differences that do not prevent resuming.

    Raises:
        CheckpointError: if it is of another job, base or data set, or a part is missing.
    """
    try:
        return _restore(task, checkpoint, base_digest, mode)
    except KeyError as missing:
        raise CheckpointError(f"the checkpoint has no {missing.args[0]!r}") from None


def identity_of(job: LoraJob) -> dict[str, Any]:
    """Return the fields of a job that its result depends on, as JSON can hold them."""
    values = job.hyperparameters() | {"id": job.id, "target_modules": list(job.target_modules)}
    values["start_digest"] = job.start_digest
    return {name: value for name, value in values.items() if name not in VOLATILE_FIELDS}


def _restore(
    task: TrainingTask, checkpoint: Checkpoint, base_digest: str, mode: str
) -> tuple[str, ...]:
    state = checkpoint.state
    _check_same("base_digest", state["base_digest"], base_digest)
    _check_same("data_digest", state["data_digest"], task.data.digest)
    for name, value in identity_of(task.job).items():
        _check_same(f"job.{name}", state["job"][name], value)
    if any(name.startswith("best/") for name in checkpoint.tensors):
        task.best = torch.empty_like(task.weights.values, device="cpu")
    task.epoch_adapters = [
        EpochAdapter(
            epoch, step, loss, accuracy, torch.empty_like(task.weights.values, device="cpu")
        )
        for epoch, step, loss, accuracy in state.get("epochs", ())
    ]
    _copy_tensors(task, checkpoint)
    task.sampler.restore(state["cursor"])
    task.steps = state["steps"]
    task.optimizer.moments["step"].fill_(task.steps)
    task.tokens = state["tokens"]
    task.batch_tokens = state["batch_tokens"]
    task.batch_sums.copy_(torch.tensor(state["batch_sums"]))
    task.curve = [(point[0], point[1], point[2], point[3], point[4]) for point in state["curve"]]
    task.validation = [(epoch, loss, accuracy) for epoch, loss, accuracy in state["validation"]]
    _restore_validating(task, state.get("validating"))
    task.state = state["state"]
    task.note = state["note"]
    return _differences(state, mode)


def _restore_validating(task: TrainingTask, state: dict[str, Any] | None) -> None:
    """Go to where validation was; validation data that have changed are evaluated anew."""
    if task.validation_data is None:
        return
    is_due = task.num_epochs > 0 and task.sampler.done % len(task.data) == 0
    is_due = is_due and (not task.validation or task.validation[-1][0] < task.num_epochs)
    task.num_validated = (task.num_epochs - is_due) * task.num_validation_rows
    if is_due and state is not None and state["digest"] == task.validation_data.digest:
        task.num_validated += state["rows"]
        task.validation_sums = state["sums"]


def _check_same(place: str, found: Any, expected: Any) -> None:
    if found != expected:
        raise CheckpointError(f"{place} is {found!r} in the checkpoint, {expected!r} here")


def _flat_tensors(task: TrainingTask) -> dict[str, Tensor]:
    moments = task.optimizer.moments
    tensors = {
        "adapter": task.weights.values,
        "exp_avg": moments["exp_avg"],
        "exp_avg_sq": moments["exp_avg_sq"],
        "gradient": task.weights.gradients,
    }
    tensors |= {f"epoch/{one.epoch}": one.values for one in task.epoch_adapters}
    return tensors if task.best is None else tensors | {"best": task.best}


@torch.no_grad()
def _copy_tensors(task: TrainingTask, checkpoint: Checkpoint) -> None:
    for part, flat in _flat_tensors(task).items():
        for name, place in task.weights.named(flat).items():
            tensor = checkpoint.tensors[f"{part}/{name}"]
            _check_same(f"shape of {part}/{name}", tensor.shape, place.shape)
            place.copy_(tensor)


def _differences(state: dict[str, Any], mode: str) -> tuple[str, ...]:
    warnings = [
        f"written with {name} {state['versions'].get(name)}, read with {version}: "
        "results may differ in the last digits"
        for name, version in training_libraries().items()
        if state["versions"].get(name) != version
    ]
    if state["mode"] != mode:
        warnings.append(f"written in {state['mode']} mode, resumed in {mode} mode")
    return tuple(warnings)
