"""Orders for those who do not know the trainer: what to train, as plain settings."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from auctune.run.executor.messages import TaskOrder
from auctune.train.job import LoraJob


def make_order(
    job: str,
    settings: Mapping[str, Any],
    data: Path,
    validation: Path | None,
    folder: Path,
    *,
    number: int,
    target: int,
    known_steps: int,
) -> TaskOrder:
    """A task's work in one slot.

    Args:
        job: its id.
        settings: of its training, by the names of `LoraJob`.
        data, validation: files of rows.
        folder: the job's own; checkpoints and the adapter go there.
        number, target, known_steps: as of `TaskOrder`.

    Raises:
        InputError: for a setting out of range.
    """
    return TaskOrder(
        job=LoraJob(id=job, data=data, validation=validation, **settings),
        folder=folder,
        number=number,
        target=target,
        adapter=adapter_folder(folder),
        known_steps=known_steps,
    )


def adapter_folder(folder: Path) -> Path:
    """Where a job's adapter is exported, in the job's folder."""
    return folder / "adapter"
