"""Cutting the rows of all jobs into micro-batches.

A micro-batch of m rows, the longest of w tokens, computes m w tokens, padding included, in a time
of about a + b m w. Rows are sorted by length and cut where the sum of times over all micro-batches
is least, with m w <= budget:

    best(j) = min over i < j of  best(i) + a/b + (j - i) w_j        (j rows, shortest first)

a/b, the overhead of a pass in tokens, is what fusing saves and bucketing spends. A row longer than
the budget goes alone. Sums of gradients do not depend on the cut, but for rounding.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

# Where no profile says it, as of one CPU core: a small pass costs as much as some 32 tokens. Of a
# GPU it is thousands.
OVERHEAD_TOKENS = 32


@dataclass(frozen=True, eq=False)
class BatchRow:
    """Row of one job's current optimizer batch.

    Attributes:
        adapter: name of its adapter.
        key: of its dropout masks.
        input_ids, labels: int64 [tokens]; labels are -100 where ignored.
        weight: of each target token in the job's loss: 1 / target tokens of the whole batch.
    """

    adapter: str
    key: int
    input_ids: NDArray[np.int64]
    labels: NDArray[np.int64]
    weight: float

    def __len__(self) -> int:
        return len(self.input_ids)


@dataclass(frozen=True)
class MicroBatch:
    """Rows that go through the model together, those of one adapter adjacent."""

    rows: tuple[BatchRow, ...]
    width: int

    @property
    def num_tokens(self) -> int:
        """Tokens computed, padding included."""
        return len(self.rows) * self.width

    @property
    def num_real_tokens(self) -> int:
        """Tokens of the rows themselves."""
        return sum(map(len, self.rows))


class MicroBatcher(Protocol):
    """Strategy that splits rows into micro-batches."""

    def split(self, rows: Sequence[BatchRow]) -> list[MicroBatch]:
        """Return micro-batches of all `rows`, which are in each job's own order."""

    def reduce_budget(self, failed: MicroBatch) -> None:
        """Make micro-batches smaller than the one that did not fit into memory."""


class TokenBudgetBatcher:
    """Micro-batches of rows of any jobs, up to a budget of tokens."""

    def __init__(self, budget: int, overhead: int = OVERHEAD_TOKENS) -> None:
        self.budget = budget
        self.overhead = overhead

    def split(self, rows: Sequence[BatchRow]) -> list[MicroBatch]:
        # The sort is stable: rows of equal length stay by job, so a job that fills the budget
        # on its own goes through alone.
        ordered = sorted(rows, key=len)
        return [
            MicroBatch(tuple(sorted(part, key=lambda row: row.adapter)), max(map(len, part)))
            for part in partition(
                [len(row) for row in ordered], self.budget, self.overhead, ordered
            )
        ]

    def reduce_budget(self, failed: MicroBatch) -> None:
        self.budget = max(1, min(self.budget, failed.num_tokens) // 2)


class RowBatcher:
    """Micro-batches of rows of one job, in its order, each row as wide as the job's longest.

    With one row each, where a call of the trainer ends changes neither shapes nor the order of
    sums, so the bits of the result do not depend on it. With several, calls must end where batches
    do, or at fixed places of them.

    Args:
        widths: tokens of a row, by adapter.
        budget: maximum tokens of a micro-batch, unless it is a single row; 0: single rows.
    """

    def __init__(self, widths: dict[str, int], budget: int = 0) -> None:
        self.widths = widths
        self.budget = budget

    def split(self, rows: Sequence[BatchRow]) -> list[MicroBatch]:
        batches = []
        for adapter, part in groupby(rows, key=lambda row: row.adapter):
            own, width = tuple(part), self.widths[adapter]
            count = max(1, self.budget // width)
            batches += [
                MicroBatch(own[first : first + count], width) for first in range(0, len(own), count)
            ]
        return batches

    def reduce_budget(self, failed: MicroBatch) -> None:
        # The bits of what follows are those of smaller passes: memory is part of the device.
        self.budget = failed.num_tokens // 2


def partition(
    lengths: Sequence[int], budget: int, overhead: int, rows: Sequence[BatchRow]
) -> list[list[BatchRow]]:
    """Return consecutive parts of `rows` of least time; see the module's recursion.

    Args:
        lengths: of the rows, ascending.
        budget: tokens of a part at most, unless it is a single row.
        overhead: a/b, in tokens.
        rows: to be cut.
    """
    best = [0.0]
    starts = [0]
    for last, length in enumerate(lengths, start=1):
        first_allowed = max(0, last - max(1, budget // length))
        cost, start = min(
            (best[first] + overhead + (last - first) * length, first)
            for first in range(first_allowed, last)
        )
        best.append(cost)
        starts.append(start)
    parts = []
    last = len(lengths)
    while last:
        parts.append(list(rows[starts[last] : last]))
        last = starts[last]
    return parts[::-1]
