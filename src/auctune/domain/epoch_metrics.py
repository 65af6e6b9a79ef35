"""Metrics of an adapter that was kept at the end of an epoch."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EpochMetrics:
    """Metrics of an adapter that was kept at the end of an epoch.

    Attributes:
        epoch: its number, from 1.
        step: number of the epoch's last optimizer step.
        train_loss, train_accuracy: of that step.
        valid_loss, valid_accuracy: of the epoch, or `None` without validation data.
    """

    epoch: int
    step: int
    train_loss: float
    train_accuracy: float
    valid_loss: float | None = None
    valid_accuracy: float | None = None
