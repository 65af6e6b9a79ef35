"""Metrics of a job by optimizer step, as in the result files and events of OpenAI's API.

`valid_*` are means over the whole validation file at the end of an epoch, and null at other steps.
A pool reports its time slices instead of steps: the mean loss of each, at its last step.
"""

import csv
import io
from collections.abc import Iterable, Mapping
from typing import Any

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
