"""Jobs of the trainer, their progress, and sampling parameters: plain values, without torch."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from auctune.domain.errors import InputError
from auctune.domain.training import TrainingConfig


@dataclass(frozen=True, slots=True)
class LoraJob(TrainingConfig):
    """One adapter to train on one data set, with its hyperparameters.

    Attributes:
        id: unique on its node; also the adapter's name.
        data: JSONL file of training rows (kinds: auctune.domain.dataset).
        validation: JSONL file of rows for a validation loss at each epoch's end, or `None`.
        start_from: adapter whose weights it begins with, as of `read_start`; `None`: a new one.
            Rank, alpha, target modules and rsLoRA are that adapter's.
        start_digest: of that adapter.
    """

    id: str
    data: Path
    validation: Path | None = None
    start_from: Path | None = None
    start_digest: str | None = None

    def __post_init__(self) -> None:
        TrainingConfig.__post_init__(self)
        if self.patience and self.validation is None:
            raise InputError("patience", "is set without a validation file", "validation")


JobState = Literal["training", "done", "failed"]
CurvePoint = tuple[int, int, int, float, float]
"""Step, rows and tokens trained by its end, mean loss and mean token accuracy of its batch."""

ValidationMeans = tuple[int, int, float, float]
"""Epoch, rows trained by its end, mean loss and mean token accuracy of the validation data."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A loaded job.

    Attributes:
        done_rows: rows trained and validated so far, over all epochs; 0 for a new one.
        total_rows: rows of all epochs together, those of the validation data included.
        warnings: damaged checkpoints that were skipped, other library versions.
        notes: on rows of its data that are truncated or left out, as `DataSize.notes`.
    """

    done_rows: int
    total_rows: int
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReducerProgress:
    """Progress of a job whose gradients are reduced.

    Attributes:
        state, note, steps, tokens: as of `Progress`.
        rows: trained and validated so far, over all epochs.
        validation: epoch, mean loss and mean token accuracy at each epoch's end.
    """

    state: JobState
    note: str
    steps: int
    rows: int
    tokens: int
    validation: Sequence[tuple[int, float, float]] = ()


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a job.

    Attributes:
        job: its id.
        rows: trained and validated so far, over all epochs.
        total_rows: of all epochs, those of the validation data included.
        tokens: trained on so far, prompts included, padding not.
        steps: of the optimizer.
        loss: of the last step, the mean over its target tokens; `None` before the first.
        losses: of the steps since the last report; as the result of a call, of the whole call.
        validation: at the end of each epoch so far.
        state: "done" also if it stopped early.
        note: why it failed or stopped early.
        tokens_per_second: of a node's job, over the running call.
        memory_gb: of a node's job: its own parameters, gradients and moments.
    """

    job: str
    rows: int
    total_rows: int
    tokens: int
    steps: int
    loss: float | None
    losses: tuple[CurvePoint, ...]
    validation: tuple[ValidationMeans, ...]
    state: JobState
    note: str = ""
    tokens_per_second: float = 0.0
    memory_gb: float = 0.0
