"""A job's whole state as a checkpoint, and back.

What the result of a job depends on, and where it is kept:

| part | kept as |
| --- | --- |
| adapter, both moments, gradient of a batch partly trained | tensors `PART/PARAMETER` |
| steps of optimizer and schedule | `steps` |
| place in the data, order of the epoch | `cursor` |
| random state | the seed in `job` and the place in the data: masks are keyed by them |
| loss and tokens of the batch so far, totals, curve, validation losses | under their names |
| what it must meet again | `job`, `base_digest`, `data_digest`; `versions` only warn |
"""

from dataclasses import asdict, fields
from typing import Any

import peft
import torch
import transformers

from auctune.domain.errors import CheckpointError
from auctune.train.checkpoint import Checkpoint
from auctune.train.job import LoraJob
from auctune.train.multilora.task import TrainingTask

# Where a job's files lie may change, and so may when it is stopped.
PASSING_FIELDS = ("data", "validation", "patience")


def capture(task: TrainingTask, base_digest: str, mode: str) -> Checkpoint:
    """Everything that `restore` needs to go on as if nothing had happened."""
    moments = task.optimizer.moments
    parts = {
        "adapter": task.weights.values,
        "exp_avg": moments["exp_avg"],
        "exp_avg_sq": moments["exp_avg_sq"],
        "gradient": task.weights.gradients,
    }
    tensors = {
        f"{part}/{name}": tensor
        for part, flat in parts.items()
        for name, tensor in task.weights.named(flat).items()
    }
    state = {
        "job": lasting_fields(task.job),
        "base_digest": base_digest,
        "data_digest": task.data.digest,
        "mode": mode,
        "versions": library_versions(),
        "cursor": task.cursor.state(),
        "steps": task.steps,
        "tokens": task.tokens,
        "batch_tokens": task.batch_tokens,
        "batch_loss": task.batch_loss.item(),
        "curve": task.curve,
        "validation": task.validation,
        "state": task.state,
        "note": task.note,
    }
    return Checkpoint(tensors, state)


def restore(
    task: TrainingTask, checkpoint: Checkpoint, base_digest: str, mode: str
) -> tuple[str, ...]:
    """Bring a new task to the state of a checkpoint.

    Returns:
        Warnings: what differs without forbidding to go on.

    Raises:
        CheckpointError: if it is of another job, base or data set, or a part is missing.
    """
    try:
        return _restore(task, checkpoint, base_digest, mode)
    except KeyError as missing:
        raise CheckpointError(f"the checkpoint has no {missing.args[0]!r}") from None


def lasting_fields(job: LoraJob) -> dict[str, Any]:
    """What of a job its result depends on, as JSON can hold it."""
    values = asdict(job)
    values["target_modules"] = list(job.target_modules)
    return {item.name: values[item.name] for item in fields(job) if item.name not in PASSING_FIELDS}


def library_versions() -> dict[str, str]:
    """The libraries whose release may change the bits of a result."""
    return {
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "peft": peft.__version__,
    }


def _restore(
    task: TrainingTask, checkpoint: Checkpoint, base_digest: str, mode: str
) -> tuple[str, ...]:
    state = checkpoint.state
    _check_same("base_digest", state["base_digest"], base_digest)
    _check_same("data_digest", state["data_digest"], task.data.digest)
    for name, value in lasting_fields(task.job).items():
        _check_same(f"job.{name}", state["job"][name], value)
    _copy_tensors(task, checkpoint)
    task.cursor.restore(state["cursor"])
    task.steps = state["steps"]
    task.optimizer.moments["step"].fill_(task.steps)
    task.tokens = state["tokens"]
    task.batch_tokens = state["batch_tokens"]
    task.batch_loss.fill_(state["batch_loss"])
    task.curve = [(entry[0], entry[1], entry[2], entry[3]) for entry in state["curve"]]
    task.validation = [(entry[0], entry[1]) for entry in state["validation"]]
    task.state = state["state"]
    task.note = state["note"]
    return _differences(state, mode)


def _check_same(place: str, found: Any, expected: Any) -> None:
    if found != expected:
        raise CheckpointError(f"{place} is {found!r} in the checkpoint, {expected!r} here")


@torch.no_grad()
def _copy_tensors(task: TrainingTask, checkpoint: Checkpoint) -> None:
    moments = task.optimizer.moments
    parts = {
        "adapter": task.weights.values,
        "exp_avg": moments["exp_avg"],
        "exp_avg_sq": moments["exp_avg_sq"],
        "gradient": task.weights.gradients,
    }
    for part, flat in parts.items():
        for name, place in task.weights.named(flat).items():
            tensor = checkpoint.tensors[f"{part}/{name}"]
            _check_same(f"shape of {part}/{name}", tensor.shape, place.shape)
            place.copy_(tensor)


def _differences(state: dict[str, Any], mode: str) -> tuple[str, ...]:
    warnings = [
        f"written with {name} {state['versions'].get(name)}, read with {version}: "
        "results may differ in the last digits"
        for name, version in library_versions().items()
        if state["versions"].get(name) != version
    ]
    if state["mode"] != mode:
        warnings.append(f"written in {state['mode']} mode, goes on in {mode} mode")
    return tuple(warnings)
