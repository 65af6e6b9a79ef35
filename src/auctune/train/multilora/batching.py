"""Cutting the rows of all jobs into micro-batches.

A micro-batch of m rows, the longest of w tokens, computes m w tokens, padding included, in a time
of about a + b m w. Rows are sorted by length and cut where the sum of times over all micro-batches
is least, with m w <= budget:

    best(j) = min over i < j of  best(i) + a/b + (j - i) w_j        (j rows, shortest first)

a/b, the overhead of a pass in tokens, is what fusing saves and bucketing spends. A row longer than
the budget goes alone. Sums of gradients do not depend on the cut, but for rounding. What is cut are
units: a row, or the two rows of a pair, which stay together.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

# Where no profile says it, as of one CPU core: a small pass costs as much as some 32 tokens. Of a
# GPU it is thousands.
OVERHEAD_TOKENS = 32
_FIRST_PASSES_TO_GROW = 16


@dataclass(frozen=True, eq=False)
class BatchRow:
    """Row of one job's current optimizer batch.

    Attributes:
        adapter: name of its adapter.
        key: of its dropout masks.
        input_ids, labels: int64 [tokens]; labels are -100 where ignored.
        weight: of each target token in the job's loss: 1 / target tokens of the whole batch; of the
            rows of a pair 1 / pairs of the whole batch.
        beta: of a row of a pair, as of `TrainingConfig`; 0 of other rows. The row with the better
            answer is followed by the one with the worse.
        reference: of a row of a pair, the log-probability of its targets under the base.
    """

    adapter: str
    key: int
    input_ids: NDArray[np.int64]
    labels: NDArray[np.int64]
    weight: float
    beta: float = 0.0
    reference: float = 0.0

    def __len__(self) -> int:
        return len(self.input_ids)


@dataclass(frozen=True)
class MicroBatch:
    """Rows that go through the model together, those of one adapter adjacent."""

    rows: tuple[BatchRow, ...]
    width: int

    @property
    def num_units(self) -> int:
        """Rows that are no pairs, and pairs."""
        return len(units_of(self.rows))

    @property
    def num_tokens(self) -> int:
        """Tokens computed, padding included."""
        return len(self.rows) * self.width

    @property
    def num_real_tokens(self) -> int:
        """Tokens of the rows themselves."""
        return sum(map(len, self.rows))


def units_of(rows: Sequence[BatchRow]) -> list[tuple[BatchRow, ...]]:
    """Return rows by what stays together: the two of each pair, others alone."""
    units: list[tuple[BatchRow, ...]] = []
    first = 0
    while first < len(rows):
        last = first + (2 if rows[first].beta else 1)
        units.append(tuple(rows[first:last]))
        first = last
    return units


class MicroBatcher(Protocol):
    """Strategy that splits rows into micro-batches.

    Attributes:
        keeps_references: whether references of pairs are kept for later epochs. Where bits must not
            depend on which are known, as after a restart, they are computed anew beside each
            micro-batch, in its shape.
    """

    keeps_references: bool

    def split(self, rows: Sequence[BatchRow]) -> list[MicroBatch]:
        """Return micro-batches of all `rows`, which are in each job's own order."""

    def reduce_budget(self, failed: MicroBatch) -> None:
        """Make micro-batches smaller than the one that did not fit into memory."""

    def record_pass(self, done: MicroBatch) -> None:
        """Record a micro-batch that fitted."""


class TokenBudgetBatcher:
    """Micro-batches of rows of any jobs, up to a budget of tokens.

    Where memory runs out the budget is halved. It doubles again after a number of passes that used
    more than half of it, since what was short may have been short for a moment only: another job's
    memory, or fragments of it. Each shortage doubles that number.
    """

    keeps_references = True

    def __init__(self, budget: int, overhead: int = OVERHEAD_TOKENS) -> None:
        self.budget = self._max_budget = budget
        self.overhead = overhead
        self._passes_to_grow = _FIRST_PASSES_TO_GROW
        self._passes = 0

    def split(self, rows: Sequence[BatchRow]) -> list[MicroBatch]:
        # The sort is stable: rows of equal length stay by job, so a job that fills the budget
        # on its own goes through alone.
        ordered = sorted(units_of(rows), key=_width)
        parts = partition([_width(unit) for unit in ordered], self.budget, self.overhead, ordered)
        return [
            MicroBatch(
                tuple(sorted((row for unit in part for row in unit), key=lambda row: row.adapter)),
                max(map(_width, part)),
            )
            for part in parts
        ]

    def reduce_budget(self, failed: MicroBatch) -> None:
        self.budget = max(1, min(self.budget, failed.num_tokens) // 2)
        self._passes_to_grow *= 2
        self._passes = 0

    def record_pass(self, done: MicroBatch) -> None:
        self._passes += 2 * done.num_tokens > self.budget
        if self._passes >= self._passes_to_grow:
            self.budget = min(self._max_budget, 2 * self.budget)
            self._passes = 0


class RowBatcher:
    """Micro-batches of rows of one job, in its order, each row as wide as the job's longest.

    With one row each, where a call of the trainer ends changes neither shapes nor the order of
    sums, so the bits of the result do not depend on it. With several, calls must end where batches
    do, or at fixed places of them.

    Args:
        widths: tokens of a row, by adapter.
        budget: maximum tokens of a micro-batch, unless it is a single row; 0: single rows.
    """

    keeps_references = False

    def __init__(self, widths: dict[str, int], budget: int = 0) -> None:
        self.widths = widths
        self.budget = budget

    def split(self, rows: Sequence[BatchRow]) -> list[MicroBatch]:
        batches = []
        for adapter, part in groupby(rows, key=lambda row: row.adapter):
            own, width = tuple(part), self.widths[adapter]
            count = max(1, self.budget // width)
            if own[0].beta:
                count = max(2, count - count % 2)
            batches += [
                MicroBatch(own[first : first + count], width) for first in range(0, len(own), count)
            ]
        return batches

    def reduce_budget(self, failed: MicroBatch) -> None:
        # The bits of what follows are those of smaller passes: memory is part of the device.
        self.budget = failed.num_tokens // 2

    def record_pass(self, done: MicroBatch) -> None:
        """Keep the budget: another one would give other bits."""


def partition(
    lengths: Sequence[int], budget: int, overhead: int, units: Sequence[tuple[BatchRow, ...]]
) -> list[list[tuple[BatchRow, ...]]]:
    """Return consecutive parts of `units` of least time; see the module's recursion.

    Args:
        lengths: of each unit's longest row, ascending.
        budget: tokens of a part at most, unless it is a single unit.
        overhead: a/b, in tokens.
        units: to be cut, as of `units_of`.
    """
    rows = list(accumulate(map(len, units), initial=0))
    best = [0.0]
    starts = [0]
    for last, length in enumerate(lengths, start=1):
        first_allowed = min(last - 1, bisect_left(rows, rows[last] - budget // length))
        cost, start = min(
            (best[first] + overhead + (rows[last] - rows[first]) * length, first)
            for first in range(first_allowed, last)
        )
        best.append(cost)
        starts.append(start)
    parts = []
    last = len(lengths)
    while last:
        parts.append(list(units[starts[last] : last]))
        last = starts[last]
    return parts[::-1]


def _width(unit: tuple[BatchRow, ...]) -> int:
    return max(map(len, unit))
