"""What a trainer tells of its jobs."""

from dataclasses import dataclass
from typing import Literal

JobState = Literal["training", "done", "failed"]


@dataclass(frozen=True, slots=True)
class Loaded:
    """A job as it was taken up.

    Attributes:
        done_rows: rows trained so far, over all epochs; 0 for a new one.
        total_rows: rows of all epochs together.
        warnings: checkpoints passed over, other library versions.
        notes: on rows of its data that are truncated or left out, as `DataSize.notes`.
    """

    done_rows: int
    total_rows: int
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a job is.

    Attributes:
        job: its id.
        rows: trained so far, over all epochs.
        total_rows: of all epochs.
        tokens: trained on so far, prompts included, padding not.
        steps: of the optimizer.
        loss: of the last step, the mean over its trained tokens; none before the first.
        losses: (step, rows, loss) of the steps since the last report; as the result of a call,
            of the whole call.
        tokens_per_second: of this job, over the running call.
        memory_gb: of the job's own parameters, gradients and moments.
        validation: (epoch, loss) at the end of each epoch so far.
        state: "done" also if it stopped early.
        note: why it failed or stopped early.
    """

    job: str
    rows: int
    total_rows: int
    tokens: int
    steps: int
    loss: float | None
    losses: tuple[tuple[int, int, float], ...]
    tokens_per_second: float
    memory_gb: float
    validation: tuple[tuple[int, float], ...]
    state: JobState
    note: str = ""
