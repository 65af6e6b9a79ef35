"""A training job: what the trainer must know of a task, and nothing of the market."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from auctune.domain.checks import check_finite, check_positive
from auctune.domain.dataset import DEFAULT_MAX_LENGTH
from auctune.domain.errors import InputError

RateSchedule = Literal["constant", "linear", "cosine"]


@dataclass(frozen=True, slots=True)
class LoraJob:
    """One adapter to train on one data set.

    Attributes:
        id: unique on its node; also the adapter's name.
        data: JSONL file of training rows (kinds: auctune.domain.dataset).
        epochs: passes over the data.
        rank, alpha, dropout: of the LoRA adapter; its output is scaled by alpha / rank.
        target_modules: names (suffixes) of the linear modules that get an adapter; empty: those
            that PEFT names for the base's architecture.
        learning_rate, weight_decay: of AdamW.
        schedule, warmup_steps: of the learning rate, over all optimizer steps of the job.
        batch_size: rows of an optimizer step.
        max_length: tokens of a row at most; a longer one is cut at its end.
        max_grad_norm: gradients of the adapter are clipped to this norm; 0: not at all.
        seed: of the adapter's start, the rows' order and the dropout masks.
        validation: JSONL file of rows for a validation loss at each epoch's end.
        patience: stop after so many epochs without a better validation loss; 0: never.
    """

    id: str
    data: Path
    epochs: int = 1
    rank: int = 8
    alpha: float = 16.0
    dropout: float = 0.0
    target_modules: tuple[str, ...] = ()
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    schedule: RateSchedule = "linear"
    warmup_steps: int = 0
    batch_size: int = 8
    max_length: int = DEFAULT_MAX_LENGTH
    max_grad_norm: float = 1.0
    seed: int = 0
    validation: Path | None = None
    patience: int = 0

    def __post_init__(self) -> None:
        for name in ("epochs", "rank", "batch_size", "max_length"):
            value = getattr(self, name)
            if value < 1:
                raise InputError(name, f"{value!r}", "a whole number >= 1")
        for name in ("warmup_steps", "patience", "seed"):
            value = getattr(self, name)
            if value < 0:
                raise InputError(name, f"{value!r}", "a whole number >= 0")
        check_positive(self.alpha, "alpha", "a number > 0")
        check_positive(self.learning_rate, "learning_rate", "a number > 0")
        check_finite(self.weight_decay, "weight_decay", "a number >= 0")
        check_finite(self.max_grad_norm, "max_grad_norm", "a number >= 0")
        if not 0 <= self.dropout < 1:
            raise InputError("dropout", f"{self.dropout!r}", "a number in [0, 1)")
        if self.patience and self.validation is None:
            raise InputError("patience", "is set without a validation file", "validation")
