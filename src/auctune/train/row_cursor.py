"""Position of a job in the rows of all its epochs: no rows, no weights, no torch.

Each epoch's rows are trained first, in optimizer batches of the next `batch_size` rows or the
remaining ones; then the rows of the validation data are evaluated. All positions follow from the
job's settings and the counts of its rows, so that whoever knows these computes the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from auctune.domain.data_size import split_rows
from auctune.train.epoch_sampler import EpochSampler
from auctune.train.job import LoraJob

VALIDATION_BATCHES = 8
"""Batches of rows that a round validates at most: a request to stop waits for a round."""


@dataclass(frozen=True, slots=True)
class DataCounts:
    """What a job's positions and means follow from, of the data that it was given.

    Attributes:
        num_rows: rows that can be trained on.
        digest: of their tokens.
        num_validation_rows: rows of the validation data; 0 without.
        num_validation_targets: T of the validation data: target tokens, or pairs.
        validation_digest: of their tokens; "" without.
        validation_row_cost: cost of evaluating such a row, in rows trained.
    """

    num_rows: int
    digest: str
    num_validation_rows: int = 0
    num_validation_targets: int = 0
    validation_digest: str = ""
    validation_row_cost: float = 0.0


class RowCursor:
    """Position of a job.

    Args:
        job: its epochs, batch size and seed.
        counts: of its rows.

    Attributes:
        sampler: its `done` counts the rows trained.
        num_validated: rows of the validation data that were evaluated, over all epochs.
        gaps: of rows with ratings, what the divergence from the base is estimated by, as far as it
            is computed: of the next rows, by group (auctune.train.multilora.task).
    """

    def __init__(self, job: LoraJob, counts: DataCounts) -> None:
        self.job, self.counts = job, counts
        self.sampler = EpochSampler(counts.num_rows, job.epochs, job.seed)
        self.num_validated = 0
        self.gaps: dict[tuple[int, int], list[float]] = {}
        # Places in the data of a batch, by its first row.
        self._batch: tuple[int, Sequence[int]] = (-1, ())

    @property
    def num_steps(self) -> int:
        """Optimizer steps of the whole job."""
        return self.job.epochs * -(-self.counts.num_rows // self.job.batch_size)

    @property
    def batch_start(self) -> int:
        """Rows before the current batch, over all epochs."""
        in_epoch = self.sampler.done % self.counts.num_rows
        return self.sampler.done - in_epoch % self.job.batch_size

    @property
    def batch_size(self) -> int:
        """Rows of the current batch."""
        in_epoch = self.batch_start % self.counts.num_rows
        return min(self.job.batch_size, self.counts.num_rows - in_epoch)

    @property
    def batch_remaining(self) -> int:
        """Remaining rows of the current batch."""
        return self.batch_start + self.batch_size - self.sampler.done

    @property
    def batch_indices(self) -> Sequence[int]:
        """Places in the data of the current batch's rows, in their order."""
        start = self.batch_start
        if self._batch[0] != start:
            self._batch = start, self.sampler.indices(start, start + self.batch_size)
        return self._batch[1]

    def next_indices(self, count: int) -> Sequence[int]:
        """Return the places in the data of the next `count` rows, all of the current batch."""
        offset = self.sampler.done - self.batch_start
        return self.batch_indices[offset : offset + count]

    @property
    def num_validation_rows(self) -> int:
        """Rows of the validation data."""
        return self.counts.num_validation_rows

    @property
    def done_rows(self) -> int:
        """Rows trained, and evaluated at the ends of epochs, so far."""
        return self.sampler.done + self.num_validated

    @property
    def total_rows(self) -> int:
        """Rows to train and to evaluate, over all epochs."""
        return self.job.epochs * (self.counts.num_rows + self.num_validation_rows)

    @property
    def is_validating(self) -> bool:
        """True while the next rows are those of the validation data."""
        is_between_epochs = self.sampler.done % self.counts.num_rows == 0
        return is_between_epochs and self.validation_remaining > 0

    @property
    def validation_remaining(self) -> int:
        """Rows of the validation data still to be evaluated for the epochs trained so far."""
        return self.num_epochs * self.num_validation_rows - self.num_validated

    @property
    def num_epochs(self) -> int:
        """Epochs whose rows have all been trained."""
        return self.sampler.done // self.counts.num_rows

    @property
    def num_ended_epochs(self) -> int:
        """Epochs whose rows have all been trained, and their validation data evaluated."""
        return self.num_epochs - (self.validation_remaining > 0)

    @property
    def row_cost(self) -> float:
        """Cost of one of the next rows, in rows trained."""
        return self.counts.validation_row_cost if self.is_validating else 1

    @property
    def done_cost(self) -> float:
        """Cost of all rows so far, in rows trained."""
        return self.sampler.done + self.counts.validation_row_cost * self.num_validated

    @property
    def total_cost(self) -> float:
        """Cost of all rows of all epochs, in rows trained."""
        num_validated = self.job.epochs * self.num_validation_rows
        return self.sampler.total + self.counts.validation_row_cost * num_validated

    @property
    def round_remaining(self) -> int:
        """Rows of the current batch, or of the validation data, that a round may take."""
        if self.is_validating:
            return min(self.validation_remaining, VALIDATION_BATCHES * self.job.batch_size)
        return self.batch_remaining

    def remaining_rounds(self, target: int) -> int:
        """Return the rounds of whole batches from here to a cumulative number of rows."""
        rows, batch = max(0, min(target, self.total_rows) - self.done_rows), self.job.batch_size
        last = split_rows(self.done_rows + rows, self.counts.num_rows, self.num_validation_rows)[1]
        num_validated = min(rows, max(0, last - self.num_validated))
        rounds = -(-(rows - num_validated) // batch)
        return rounds - (-num_validated // (VALIDATION_BATCHES * batch))

    def seek(self, row: int) -> None:
        """Go to a row of the job, in the order of `done_rows`."""
        counts = split_rows(row, self.counts.num_rows, self.num_validation_rows)
        self.sampler.done, self.num_validated = counts
