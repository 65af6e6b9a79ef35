"""A training job: what the trainer needs to know of a task, and nothing of the market."""

from dataclasses import dataclass
from pathlib import Path

from auctune.domain.errors import InputError
from auctune.domain.training import TrainingConfig


@dataclass(frozen=True, slots=True)
class LoraJob(TrainingConfig):
    """One adapter to train on one data set, with its hyperparameters.

    Attributes:
        id: unique on its node; also the adapter's name.
        data: JSONL file of training rows (kinds: auctune.domain.dataset).
        validation: JSONL file of rows for a validation loss at each epoch's end, or `None`.
    """

    id: str
    data: Path
    validation: Path | None = None

    def __post_init__(self) -> None:
        TrainingConfig.__post_init__(self)
        if self.patience and self.validation is None:
            raise InputError("patience", "is set without a validation file", "validation")
