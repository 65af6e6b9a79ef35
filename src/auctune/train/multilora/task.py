"""Rows of a job as passes take them, and one job in training on a node.

A job of method `dpo` has pairs for rows, one of `kto` answers with ratings; T is their number, and
the loss that of a pair or a rating (auctune.train.multilora.step).
"""

import math
import weakref
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from auctune.domain.data_size import DataSize
from auctune.train.job import LoraJob
from auctune.train.multilora.adapters import load_start
from auctune.train.multilora.batching import BatchRow
from auctune.train.multilora.dropout import row_key
from auctune.train.multilora.weights import AdapterWeights
from auctune.train.row_cursor import DataCounts, RowCursor
from auctune.train.rows import TokenizedDataSet, TokenizedRow, mismatch, split_pair
from auctune.train.task_state import TaskState


class BatchRowFactory:
    """Makes the rows of a job's micro-batches, those of preferences with their references.

    Args:
        job: whose.
        weights: its adapter.

    Attributes:
        start: float32 [num_parameters], weights of the adapter that a job with preferences started
            from; else `None`.
        references: log-probabilities of the targets of a row, or of both answers of a pair, under
            the base, with the adapter of `start` if there is one, by the caller's number of the
            row. They are constants, computed when they are needed and unknown, as after a restart.
    """

    def __init__(self, job: LoraJob, weights: AdapterWeights) -> None:
        self.job, self.weights = job, weights
        self.start: Tensor | None = None
        self.references: dict[int, tuple[float, ...]] = {}

    @property
    def has_preferences(self) -> bool:
        """Return whether rows are pairs of answers, or answers with ratings."""
        return self.job.method != "supervised"

    @property
    def has_ratings(self) -> bool:
        """Return whether rows are answers with ratings."""
        return self.job.method == "kto"

    def load_start(self, base_digest: str, adapter: Path | None) -> None:
        """Take over the weights of the adapter that the job starts from, if there is one.

        Raises:
            InputError: as `auctune.train.multilora.adapters.load_start`.
        """
        load_start(self.weights, replace(self.job, start_from=adapter), base_digest)
        if self.has_preferences and adapter is not None:
            self.start = self.weights.values.clone()

    def batch_rows(
        self,
        index: int,
        row: TokenizedRow,
        place: int,
        weight: float,
        divergence: float = 0.0,
    ) -> list[BatchRow]:
        """Return a row, or both of a pair.

        Args:
            index: number of a row in `references`.
            row: the row, or the pair.
            place: in the job's stream of rows, by which dropout is keyed.
            weight: as of `BatchRow`.
            divergence: z of a row with a rating.
        """
        name, job = self.weights.name, self.job
        if job.method == "dpo":
            keys = row_key(job.seed, 2 * place), row_key(job.seed, 2 * place + 1)
            return self._pair_rows(row, keys, weight, self.references[index])
        key = row_key(job.seed, place)
        if not row.rating:
            return [BatchRow(name, key, row.input_ids, row.labels, weight)]
        level = self.references[index][0] + divergence
        return [BatchRow(name, key, row.input_ids, row.labels, weight, job.beta, level, row.rating)]

    def without_reference(self, rows: Mapping[int, TokenizedRow]) -> dict[int, list[BatchRow]]:
        """Return those rows, or both of pairs, by number, whose references are not known."""
        return {
            index: [self._plain_row(row)]
            if row.rating
            else self._pair_rows(row, (0, 0), 1.0, (0.0, 0.0))
            for index, row in rows.items()
            if index not in self.references
        }

    def _plain_row(self, row: TokenizedRow) -> BatchRow:
        return BatchRow(self.weights.name, 0, row.input_ids, row.labels, 1.0)

    def mismatched(self, group: Sequence[TokenizedRow]) -> list[BatchRow]:
        """Return the prompts of a group of rows with ratings, each with the answer before its own.

        The first has the last answer: so all answers are there, as those of a batch of TRL's are.
        """
        before = [group[-1], *group[:-1]]
        length = self.job.max_length
        return [
            self._plain_row(mismatch(row, other, length))
            for row, other in zip(group, before, strict=True)
        ]

    def _pair_rows(
        self,
        pair: TokenizedRow,
        keys: tuple[int, int],
        weight: float,
        references: tuple[float, ...],
    ) -> list[BatchRow]:
        name, beta = self.weights.name, self.job.beta
        return [
            BatchRow(name, key, row.input_ids, row.labels, weight, beta, reference)
            for row, key, reference in zip(split_pair(pair), keys, references, strict=True)
        ]


Group = tuple[int, int]
"""Rows with one estimate of the divergence: an optimizer batch, by its first row and -1; or as many
rows of the validation data, by the rows trained before and the first of them."""


class TaskRows:
    """Rows of a job from its position on.

    Args:
        cursor: the position.
        factory: makes rows of micro-batches. A row's number is its place in the data; those of
            the validation data follow after the last row's place.
        data, validation: the rows, and those of the validation data.
    """

    def __init__(
        self,
        cursor: RowCursor,
        factory: BatchRowFactory,
        data: TokenizedDataSet,
        validation: TokenizedDataSet | None = None,
    ) -> None:
        self.cursor, self.factory = cursor, factory
        self.data, self.validation = data, validation

    @property
    def has_preferences(self) -> bool:
        """Return whether rows are pairs of answers, or answers with ratings."""
        return self.factory.has_preferences

    @property
    def num_batch_targets(self) -> int:
        """T of the current batch."""
        if self.has_preferences:
            return self.cursor.batch_size
        rows = self.data.rows
        return sum(rows[index].num_trained_tokens for index in self.cursor.batch_indices)

    def num_tokens(self, count: int) -> int:
        """Return the tokens of the next `count` rows, all of the current batch."""
        return sum(len(self.data.rows[index]) for index in self.cursor.next_indices(count))

    def take(self, count: int) -> list[BatchRow]:
        """Return the next `count` rows, all of the current batch or of the validation data."""
        cursor, make = self.cursor, self.factory.batch_rows
        divergences = self._divergences(count)
        if cursor.is_validating:
            return [
                one
                for index, row in self._validation_rows(count).items()
                for one in make(index, row, 0, 1.0, divergences.get(self._group(index), 0.0))
            ]
        assert 0 < count <= cursor.batch_remaining
        weight = 1 / self.num_batch_targets
        divergence = divergences.get(self._group(0), 0.0)
        return [
            row
            for place, index in enumerate(cursor.next_indices(count), cursor.sampler.done)
            for row in make(index, self.data.rows[index], place, weight, divergence)
        ]

    def next_preferences(self, count: int) -> dict[int, TokenizedRow]:
        """Return the next `count` rows by number, as of `take`, if they need references."""
        if not self.has_preferences:
            return {}
        if self.cursor.is_validating:
            return self._validation_rows(count)
        return {index: self.data.rows[index] for index in self.cursor.next_indices(count)}

    def next_estimates(self, count: int) -> list[tuple[list[float], BatchRow]]:
        """Return what is missing of the estimates of divergence that the next `count` rows need.

        Returns:
            At most `count` rows to be computed, each with the gaps of its group, to which its own
            is to be appended: its log-probability less that under the base. Empty: all is known.
        """
        groups = self._groups(count)
        # The weights have changed since those of other groups were computed.
        gaps = {group: self.cursor.gaps.get(group, []) for group in groups}
        self.cursor.gaps = gaps
        missing = [
            (gaps[group], row)
            for group, rows in groups.items()
            for row in self.factory.mismatched(rows)[len(gaps[group]) :]
            if len(rows) > 1
        ]
        return missing[:count]

    def _divergences(self, count: int) -> dict[Group, float]:
        """Return the estimates z for the groups of the next `count` rows, all of them computed.

        A row alone has no other answer to be compared with: its z is 0.
        """
        gaps = {group: self.cursor.gaps[group] for group in self._groups(count)}
        return {
            group: max(0.0, math.fsum(of_group) / len(of_group)) if of_group else 0.0
            for group, of_group in gaps.items()
        }

    def _groups(self, count: int) -> dict[Group, list[TokenizedRow]]:
        """Return the rows of the groups of the next `count` rows; empty without ratings."""
        if not self.factory.has_ratings:
            return {}
        cursor = self.cursor
        if not cursor.is_validating:
            return {self._group(0): [self.data.rows[n] for n in cursor.batch_indices]}
        assert self.validation is not None
        size = cursor.job.batch_size
        found = dict.fromkeys(map(self._group, self._validation_rows(count)))
        return {one: list(self.validation.rows[one[1] : one[1] + size]) for one in found}

    def _group(self, index: int) -> Group:
        """Return the group of one of the next rows, of which validation rows have numbers."""
        cursor = self.cursor
        if not cursor.is_validating:
            return cursor.batch_start, -1
        in_data = index - len(self.data)
        return cursor.sampler.done, in_data - in_data % cursor.job.batch_size

    def _validation_rows(self, count: int) -> dict[int, TokenizedRow]:
        """Return the next `count` rows of the validation data by their numbers."""
        assert self.validation is not None
        first = self.cursor.num_validated % len(self.validation)
        rows = self.validation.rows[first : first + count]
        return dict(enumerate(rows, start=len(self.data) + first))


class TrainingTask(TaskState):
    """A job on a node.

    Args:
        job: the job.
        weights: its adapter.
        data, validation: its rows, and those of the validation data.
        kept_epochs: as of `TaskState`.

    Attributes:
        rows: its rows, from its position on.
    """

    weights: AdapterWeights

    def __init__(
        self,
        job: LoraJob,
        weights: AdapterWeights,
        data: TokenizedDataSet,
        validation: TokenizedDataSet | None = None,
        *,
        kept_epochs: int = 0,
    ) -> None:
        super().__init__(job, count_data(job, data, validation), weights, kept_epochs)
        factory = BatchRowFactory(job, weights)
        # Without a cycle, a job that is unloaded is out of memory at once.
        self.rows = TaskRows(weakref.proxy(self), factory, data, validation)


def count_data(
    job: LoraJob, data: TokenizedDataSet, validation: TokenizedDataSet | None
) -> DataCounts:
    """Return what a job's positions follow from, of its rows."""
    if validation is None:
        return DataCounts(len(data), data.digest)
    has_tokens = job.method == "supervised"
    return DataCounts(
        num_rows=len(data),
        digest=data.digest,
        num_validation_rows=len(validation),
        num_validation_targets=validation.num_trained_tokens if has_tokens else len(validation),
        validation_digest=validation.digest,
        validation_row_cost=data_size(data, validation, None).validation_row_cost,
    )


def data_size(
    data: TokenizedDataSet, validation: TokenizedDataSet | None, context_tokens: int | None
) -> DataSize:
    """Return the size of a job's data and validation data, for a base of that context."""
    size = data.size(context_tokens)
    if validation is None:
        return size
    return replace(size, validation=validation.size(context_tokens))


@contextmanager
@torch.no_grad()
def reference_adapters(jobs: Iterable[BatchRowFactory]) -> Iterator[Collection[str]]:
    """Set adapters back to the weights that their jobs with preferences started from, for a block.

    Yields:
        Names of these adapters; the references of other jobs are computed by the base alone.
    """
    kept = [
        (job.weights, job.start, job.weights.values.clone())
        for job in jobs
        if job.start is not None
    ]
    try:
        for weights, start, _ in kept:
            weights.values.copy_(start)
        yield {weights.name for weights, _, _ in kept}
    finally:
        for weights, _, trained in kept:
            weights.values.copy_(trained)
