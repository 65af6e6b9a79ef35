"""State of one job in training: its adapter, its optimizer, its counts; without rows or a base.

The gradient of an optimizer batch is the mean over the target tokens of the whole batch, however
the batch is cut into passes, and whoever computes them:

    g = 1/T * sum over rows of the batch, over target tokens n of a row, of  grad l_n

A checkpoint has all that the result of a job depends on. It has one schema for all kinds of zones:

| part | kept as |
| --- | --- |
| adapter, moments, gradient of a batch partly trained, best epoch's adapter | flat tensors, \
`parameters` says what is where |
| steps of optimizer and schedule | `steps` |
| position in the data, order of the epoch | `cursor` |
| random state | the seed in `job` and the position: masks are keyed by them |
| sums and tokens of the batch so far, totals, curve, validation | under their names |
| rows and sums of a validation that is under way | `validating` |
| adapters of the last epochs that were not written yet | `epoch/NUMBER`, `epochs` |
| what it must match again | `job` with the digest of the adapter that it started from, \
`base_digest`, `data_digest`; `versions` only warn |
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from auctune.domain.errors import CheckpointError
from auctune.train.checkpoint import Checkpoint
from auctune.train.host import training_libraries
from auctune.train.job import CurvePoint, JobState, LoraJob
from auctune.train.multilora.optimizer import AdapterOptimizer
from auctune.train.multilora.weights import FlatAdapter
from auctune.train.row_cursor import DataCounts, RowCursor


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


class TaskState(RowCursor):
    """A job in training.

    Args:
        job, counts: as of `RowCursor`.
        weights: its adapter, changed in place.
        kept_epochs: number of the last epochs whose adapters are kept.

    Attributes:
        weights: its adapter.
        batch_sums: float32 [2], of the batch's target tokens so far: their losses, their hits.
        batch_tokens, tokens: of the batch so far; of all full batches before.
        curve: (step, rows, tokens, loss, accuracy) of each optimizer step; the accuracy is the
            share of target tokens that were the likeliest one.
        validation: (epoch, loss, accuracy) at each epoch's end.
        validation_sums: [2], losses and hits of the validation that is under way.
        best: float32 [num_parameters], on the CPU: weights of the epoch of lowest validation loss,
            of a job with patience; else `None`.
        epoch_adapters: those that have not been written yet, the oldest first.
    """

    def __init__(
        self, job: LoraJob, counts: DataCounts, weights: FlatAdapter, kept_epochs: int = 0
    ) -> None:
        super().__init__(job, counts)
        self.weights, self._kept_epochs = weights, kept_epochs
        self.optimizer = AdapterOptimizer(job, weights.values, weights.gradients, self.num_steps)
        self.batch_sums = torch.zeros(2, device=weights.values.device)
        self.steps = self.tokens = self.batch_tokens = 0
        self.curve: list[CurvePoint] = []
        self.validation: list[tuple[int, float, float]] = []
        self.validation_sums = [0.0, 0.0]
        self.best: Tensor | None = None
        self.epoch_adapters: list[EpochAdapter] = []
        self.state: JobState = "training"
        self.note = ""

    def remaining_rows(self, target: int) -> int:
        """Return the rows from here to a cumulative number; 0 once the job has ended."""
        if self.state != "training":
            return 0
        return max(0, min(target, self.total_rows) - self.done_rows)

    def count_trained(self, count: int, num_tokens: int) -> bool:
        """Count the next `count` rows, of so many tokens, as trained.

        Returns:
            Whether they complete their batch.
        """
        remaining = self.batch_remaining - count
        self.batch_tokens += num_tokens
        self.sampler.done += count
        return remaining == 0

    def restart_batch(self, start: int) -> None:
        """Discard what has been trained of the batch that begins at `start`."""
        self.sampler.done = start
        self._clear_batch()
        self.weights.gradients.zero_()

    def take_step(self, loss: float, accuracy: float) -> None:
        """Take an optimizer step at the end of a batch of that mean loss and accuracy."""
        self.optimizer.step(self.steps)
        self.steps += 1
        self.tokens += self.batch_tokens
        self._clear_batch()
        self.curve.append((self.steps, self.sampler.done, self.tokens, loss, accuracy))
        if self.sampler.done % self.counts.num_rows == 0 and not self.is_validating:
            self._end_epoch()

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
            targets = self.counts.num_validation_targets
            means = [total / targets for total in self.validation_sums]
            self.validation_sums = [0.0, 0.0]
            self._end_epoch(means[0], means[1])

    def fail(self, reason: str) -> None:
        """End the job; the adapter stays as it was after the last good step."""
        self.state = "failed"
        self.note = reason
        self._clear_batch()
        self.weights.gradients.zero_()

    def _clear_batch(self) -> None:
        self.batch_tokens = 0
        self.batch_sums.zero_()

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
        if self._kept_epochs:
            step, _, _, loss, accuracy = self.curve[-1]
            values = self.weights.values.detach().to("cpu", copy=True)
            kept = EpochAdapter(self.num_epochs, step, loss, accuracy, values)
            self.epoch_adapters = [*self.epoch_adapters, kept][-self._kept_epochs :]

    @torch.no_grad()
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


def take_steps(full: Sequence[TaskState], num_targets: Sequence[int]) -> None:
    """Take the optimizer step of jobs whose batch is full, unless it would not be finite.

    Args:
        full: the jobs.
        num_targets: T of each one's batch: target tokens, or pairs.
    """
    if not full:
        return
    # One transfer for all: on a GPU each would wait for the device.
    parts = [torch.stack((*task.batch_sums, task.optimizer.clip())) for task in full]
    numbers = torch.stack(parts).tolist()
    for task, targets, (loss, hits, norm) in zip(full, num_targets, numbers, strict=True):
        if not (math.isfinite(loss) and math.isfinite(norm)):
            what = f"gradient norm {norm}" if math.isfinite(loss) else f"loss {loss}"
            task.fail(f"{what} in step {task.steps + 1}")
            continue
        task.take_step(loss / targets, hits / targets)


# When a job stops may change, and so may the paths of its files.
VOLATILE_FIELDS = ("patience",)


def identity_of(job: LoraJob) -> dict[str, Any]:
    """Return the fields of a job that its result depends on, as JSON can hold them."""
    values = job.hyperparameters() | {"id": job.id, "target_modules": list(job.target_modules)}
    values["start_digest"] = job.start_digest
    return {name: value for name, value in values.items() if name not in VOLATILE_FIELDS}


def capture_state(task: TaskState, base_digest: str, mode: str) -> Checkpoint:
    """Return all that `restore_state` needs to continue bit-identically."""
    state = {
        "job": identity_of(task.job),
        "base_digest": base_digest,
        "data_digest": task.counts.digest,
        "mode": mode,
        "versions": training_libraries(),
        "parameters": _parameters(task),
        "cursor": task.sampler.state(),
        "steps": task.steps,
        "tokens": task.tokens,
        "batch_tokens": task.batch_tokens,
        "batch_sums": task.batch_sums.tolist(),
        "curve": list(task.curve),
        "validation": list(task.validation),
        **_validating_state(task),
        **_epochs_state(task),
        **({"gaps": [[*group, gaps] for group, gaps in task.gaps.items()]} if task.gaps else {}),
        "state": task.state,
        "note": task.note,
    }
    return Checkpoint(_flat_tensors(task), state)


def copy_to_host(tensors: Mapping[str, Tensor]) -> dict[str, NDArray[Any]]:
    """Return copies of tensors in the memory of the host; those of a GPU by one wait for it."""
    devices = {one.device for one in tensors.values() if one.device.type == "cuda"}
    copies = {
        name: torch.empty_like(one, device="cpu", pin_memory=bool(devices)).copy_(
            one.detach(), non_blocking=True
        )
        for name, one in tensors.items()
    }
    for device in devices:
        torch.cuda.synchronize(device)
    return {name: one.numpy() for name, one in copies.items()}


def _parameters(task: TaskState) -> list[list[Any]]:
    return [[name, list(shape)] for name, shape in task.weights.shapes.items()]


def _validating_state(task: TaskState) -> dict[str, Any]:
    """Return the state of a validation that is under way; empty if none is."""
    if not task.num_validation_rows or not task.num_validated % task.num_validation_rows:
        return {}
    rows = task.num_validated % task.num_validation_rows
    digest = task.counts.validation_digest
    return {"validating": {"rows": rows, "sums": task.validation_sums, "digest": digest}}


def _epochs_state(task: TaskState) -> dict[str, Any]:
    """Return the metrics of adapters that were not written yet; empty if there are none."""
    epochs = [
        [one.epoch, one.step, one.train_loss, one.train_accuracy] for one in task.epoch_adapters
    ]
    return {"epochs": epochs} if epochs else {}


def restore_state(
    task: TaskState, checkpoint: Checkpoint, base_digest: str, mode: str
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


def _restore(
    task: TaskState, checkpoint: Checkpoint, base_digest: str, mode: str
) -> tuple[str, ...]:
    state = checkpoint.state
    _check_same("base_digest", state["base_digest"], base_digest)
    _check_same("data_digest", state["data_digest"], task.counts.digest)
    for name, value in identity_of(task.job).items():
        _check_same(f"job.{name}", state["job"][name], value)
    if _is_flat(checkpoint):
        _check_same("parameters", state["parameters"], _parameters(task))
    if any(name.partition("/")[0] == "best" for name in checkpoint.tensors):
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
    task.gaps = {(first, block): gaps for first, block, gaps in state.get("gaps", ())}
    task.state = state["state"]
    task.note = state["note"]
    return _differences(state, mode)


def _restore_validating(task: TaskState, state: dict[str, Any] | None) -> None:
    """Go to where validation was; validation data that have changed are evaluated anew."""
    if not task.num_validation_rows:
        return
    is_due = task.num_epochs > 0 and task.sampler.done % task.counts.num_rows == 0
    is_due = is_due and (not task.validation or task.validation[-1][0] < task.num_epochs)
    task.num_validated = (task.num_epochs - is_due) * task.num_validation_rows
    if is_due and state is not None and state["digest"] == task.counts.validation_digest:
        task.num_validated += state["rows"]
        task.validation_sums = state["sums"]


def _check_same(place: str, found: Any, expected: Any) -> None:
    if found != expected:
        raise CheckpointError(f"{place} is {found!r} in the checkpoint, {expected!r} here")


def _flat_tensors(task: TaskState) -> dict[str, Tensor]:
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
def _copy_tensors(task: TaskState, checkpoint: Checkpoint) -> None:
    for part, flat in _flat_tensors(task).items():
        if _is_flat(checkpoint):
            _copy(checkpoint, part, flat)
        else:
            for name, place in task.weights.named(flat).items():
                _copy(checkpoint, f"{part}/{name}", place)


def _is_flat(checkpoint: Checkpoint) -> bool:
    """Return whether a checkpoint has flat tensors: those of format 7 have each parameter."""
    return not any(name.startswith("adapter/") for name in checkpoint.tensors)


def _copy(checkpoint: Checkpoint, name: str, place: Tensor) -> None:
    tensor = checkpoint.tensors[name]
    _check_same(f"size of {name}", tensor.numel(), place.numel())
    place.copy_(tensor.view(place.shape))


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
