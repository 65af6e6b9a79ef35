"""One job in training: its adapter, its optimizer and its place in the data.

An optimizer batch is the next `batch_size` rows of an epoch, or what is left of it. The gradient
is the mean over the trained tokens of the whole batch, however the batch is cut into passes:

    g = 1/T * sum over rows of the batch, over trained tokens n of a row, of  grad l_n

with T the trained tokens of the batch, known before its first row is trained.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from auctune.train.cursor import Cursor
from auctune.train.job import LoraJob
from auctune.train.multilora.adapters import AdapterWeights
from auctune.train.multilora.batches import PlannedRow
from auctune.train.multilora.dropout import row_key
from auctune.train.multilora.optimizer import AdapterOptimizer
from auctune.train.progress import JobState
from auctune.train.rows import TokenizedDataSet, TokenizedRow


@dataclass
class TrainingTask:
    """A job's state while it is on a node.

    Attributes:
        cursor: its `done` counts the rows trained.
        batch_loss: [], sum of the losses of the batch's tokens so far.
        batch_tokens, tokens: of the batch so far; of all full batches before.
        curve: (step, rows, tokens, loss) of each optimizer step.
        validation: (epoch, loss) at each epoch's end.
    """

    job: LoraJob
    weights: AdapterWeights
    data: TokenizedDataSet
    validation_data: TokenizedDataSet | None = None
    max_length: int = 0
    steps: int = 0
    tokens: int = 0
    batch_tokens: int = 0
    curve: list[tuple[int, int, int, float]] = field(default_factory=list)
    validation: list[tuple[int, float]] = field(default_factory=list)
    state: JobState = "training"
    note: str = ""
    cursor: Cursor = field(init=False)
    optimizer: AdapterOptimizer = field(init=False)
    batch_loss: Tensor = field(init=False)
    _batch: tuple[int, tuple[int, ...]] = field(init=False, default=(-1, ()))

    def __post_init__(self) -> None:
        self.cursor = Cursor(len(self.data), self.job.epochs, self.job.seed)
        self._ahead = Cursor(len(self.data), self.job.epochs, self.job.seed)
        self.optimizer = AdapterOptimizer(
            self.job, self.weights.values, self.weights.gradients, self.num_steps
        )
        self.batch_loss = torch.zeros((), device=self.weights.values.device)

    @property
    def num_steps(self) -> int:
        """Optimizer steps of the whole job."""
        return self.job.epochs * -(-len(self.data) // self.job.batch_size)

    @property
    def batch_start(self) -> int:
        """Rows before the current batch, over all epochs."""
        in_epoch = self.cursor.done % len(self.data)
        return self.cursor.done - in_epoch % self.job.batch_size

    @property
    def batch_size(self) -> int:
        """Rows of the current batch."""
        in_epoch = self.batch_start % len(self.data)
        return min(self.job.batch_size, len(self.data) - in_epoch)

    @property
    def batch_left(self) -> int:
        """Rows of the current batch that are still to be trained."""
        return self.batch_start + self.batch_size - self.cursor.done

    def rows_left(self, target: int) -> int:
        """Rows from here to a cumulative number of rows; 0 once the job has ended."""
        if self.state != "training":
            return 0
        return max(0, min(target, self.cursor.total) - self.cursor.done)

    def next_rows(self, count: int) -> list[PlannedRow]:
        """The next `count` rows, all of the current batch."""
        assert 0 < count <= self.batch_left
        indices = self._batch_indices()
        weight = 1 / self.num_batch_targets
        first = self.cursor.done
        offset = first - self.batch_start
        return [
            self._planned(self.data.rows[index], row_key(self.job.seed, first + place), weight)
            for place, index in enumerate(indices[offset : offset + count])
        ]

    def validation_rows(self) -> list[PlannedRow]:
        """All rows of the validation data."""
        rows = () if self.validation_data is None else self.validation_data.rows
        return [self._planned(row, 0, 1.0) for row in rows]

    def advance(self, rows: list[PlannedRow]) -> bool:
        """Count rows as trained; returns whether they complete their batch."""
        left = self.batch_left - len(rows)
        self.cursor.done += len(rows)
        self.batch_tokens += sum(map(len, rows))
        return left == 0

    def restart_batch(self, start: int) -> None:
        """Forget what has been trained of the batch that begins at `start`."""
        self.cursor.done = start
        self.clear_batch()
        self.weights.gradients.zero_()

    def take_step(self, loss: float) -> None:
        """Take an optimizer step at the end of a batch of that mean loss."""
        self.optimizer.step(self.steps)
        self.steps += 1
        self.tokens += self.batch_tokens
        self.clear_batch()
        self.curve.append((self.steps, self.cursor.done, self.tokens, loss))
        if self.cursor.done == self.cursor.total:
            self.state = "done"

    def clear_batch(self) -> None:
        """Begin to count anew."""
        self.batch_tokens = 0
        self.batch_loss.zero_()

    def note_validation(self, loss: float) -> None:
        """Keep an epoch's validation loss; ends the job if it is out of patience."""
        self.validation.append((len(self.validation) + 1, loss))
        losses = [value for _, value in self.validation]
        since_best = len(losses) - 1 - losses.index(min(losses))
        if self.job.patience and since_best >= self.job.patience and self.state == "training":
            self.state = "done"
            self.note = f"stopped early: no better validation loss in {since_best} epochs"

    def fail(self, reason: str) -> None:
        """End the job; the adapter stays as it was after the last good step."""
        self.state = "failed"
        self.note = reason
        self.clear_batch()
        self.weights.gradients.zero_()

    @property
    def num_batch_targets(self) -> int:
        """T: trained tokens of the current batch."""
        return sum(self.data.rows[index].num_trained_tokens for index in self._batch_indices())

    def _batch_indices(self) -> tuple[int, ...]:
        start = self.batch_start
        if self._batch[0] != start:
            self._ahead.done = start
            self._batch = (start, tuple(self._ahead.take(self.batch_size)))
        return self._batch[1]

    def _planned(self, row: TokenizedRow, key: int, weight: float) -> PlannedRow:
        return PlannedRow(self.weights.name, key, row.input_ids, row.labels, weight)
