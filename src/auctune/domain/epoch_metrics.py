"""Metrics of a job by epoch, and by optimizer step as in OpenAI's result files and events.

`valid_*` are means over the whole validation file at the end of an epoch, and null at other steps.
A pool reports its time slices instead of steps: the mean loss of each, at its last step.
"""

import csv
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


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


Record = dict[str, Any]

COLUMNS = (
    "step",
    "train_loss",
    "train_mean_token_accuracy",
    "valid_loss",
    "valid_mean_token_accuracy",
)


def step_metrics(result: Mapping[str, Any]) -> list[Record]:
    """Return the metrics of each step of a slot, by the `result` of its event `job.trained`."""
    validations = {rows: means for _, rows, *means in result["validation"]}
    return [
        dict(zip(COLUMNS, (step, *means, *validations.get(rows, (None, None))), strict=True))
        for step, rows, _, *means in result["losses"]
    ]


def metrics_csv(results: Iterable[Mapping[str, Any]]) -> str:
    """Return the metrics of a job as CSV, by the results of all its slots, oldest first."""
    # A job that went back to an older checkpoint trained some steps again.
    steps = {one["step"]: one for result in results for one in step_metrics(result)}
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(steps[step] for step in sorted(steps))
    return text.getvalue()
