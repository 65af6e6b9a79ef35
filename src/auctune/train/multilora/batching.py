"""Cutting the rows of all jobs into micro-batches.

A micro-batch takes a time of about a + b n for its n tokens, so the fewer there are the better:
rows are put into one as long as they fit into the budget of tokens. Most models take rows one after
the other, as one stream of tokens; others take padded rows, and those of like length go together. A
row longer than the budget goes alone. Sums of gradients do not depend on the cut, but for rounding.
What is cut are units: a row, or the two rows of a pair, which stay together.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

_FIRST_PASSES_TO_GROW = 16


@dataclass(frozen=True, eq=False)
class BatchRow:
    """Row of one job's current optimizer batch.

    Attributes:
        adapter: name of its adapter.
        key: of its dropout masks.
        input_ids, labels: int64 [tokens]; labels are -100 where ignored.
        weight: of each target token in the job's loss: 1 / target tokens of the whole batch; of the
            rows of a pair, and of those with a rating, 1 / pairs or rows of the whole batch.
        beta: of a row of a pair or with a rating, as of `TrainingConfig`; 0 of other rows. The row
            with the better answer of a pair is followed by the one with the worse.
        reference: of such a row, the log-probability of its targets under the base, and of one with
            a rating beside it the divergence from the base (auctune.train.multilora.step).
        rating: 1 of an answer that is liked, -1 of one that is not, 0 of other rows.
    """

    adapter: str
    key: int
    input_ids: NDArray[np.int64]
    labels: NDArray[np.int64]
    weight: float
    beta: float = 0.0
    reference: float = 0.0
    rating: int = 0

    @property
    def is_paired(self) -> bool:
        """Return whether the row is one of a pair."""
        return self.beta > 0 and self.rating == 0

    def __len__(self) -> int:
        return len(self.input_ids)


@dataclass(frozen=True)
class MicroBatch:
    """Rows that go through the model together, those of one adapter adjacent.

    Attributes:
        rows: their tokens, in this order, are those of the pass.
        is_packed: whether they lie one after the other; else each is padded to the longest.
    """

    rows: tuple[BatchRow, ...]
    is_packed: bool

    @property
    def num_units(self) -> int:
        """Rows that are no pairs, and pairs."""
        return len(units_of(self.rows))

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each row."""
        return np.array([len(row) for row in self.rows], np.int64)

    @property
    def width(self) -> int:
        """Tokens of the longest row."""
        return int(self.lengths.max())

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """First token of each row in the pass, and the end of the last."""
        if self.is_packed:
            return np.concatenate([[0], self.lengths.cumsum()])
        return np.arange(len(self.rows) + 1) * self.width

    @property
    def num_tokens(self) -> int:
        """Tokens computed, padding included."""
        return int(self.starts[-1])


def units_of(rows: Sequence[BatchRow]) -> list[tuple[BatchRow, ...]]:
    """Return rows by what stays together: the two of each pair, others alone."""
    units: list[tuple[BatchRow, ...]] = []
    first = 0
    while first < len(rows):
        last = first + (2 if rows[first].is_paired else 1)
        units.append(tuple(rows[first:last]))
        first = last
    return units


class MicroBatcher(Protocol):
    """Strategy that splits rows into micro-batches.

    Attributes:
        keeps_references: whether references of rows are kept for later epochs. Where bits must not
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

    Args:
        budget: tokens of a pass at most, padding included, unless it is a single unit.
        is_packed: as of `MicroBatch`.
    """

    keeps_references = True

    def __init__(self, budget: int, *, is_packed: bool) -> None:
        self.budget = self._max_budget = budget
        self._is_packed = is_packed
        self._passes_to_grow = _FIRST_PASSES_TO_GROW
        self._passes = 0

    def split(self, rows: Sequence[BatchRow]) -> list[MicroBatch]:
        # By adapter a job that fills the budget on its own goes through alone; by length there is
        # little padding. Both sorts are stable.
        units = sorted(units_of(rows), key=_adapter if self._is_packed else _width)
        return [
            MicroBatch(tuple(sorted(part, key=lambda row: row.adapter)), self._is_packed)
            for part in fill(units, self.budget, is_packed=self._is_packed)
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
    """Micro-batches of rows of one job, in its order.

    With one row each, where a call of the trainer ends changes neither shapes nor the order of
    sums, so the bits of the result do not depend on it. With several, calls must end where batches
    do, or at fixed places of them.

    Args:
        budget: maximum tokens of a micro-batch, unless it is a single unit; 0: single ones.
        is_packed: as of `MicroBatch`.
    """

    keeps_references = False

    def __init__(self, budget: int = 0, *, is_packed: bool) -> None:
        self.budget = budget
        self._is_packed = is_packed

    def split(self, rows: Sequence[BatchRow]) -> list[MicroBatch]:
        return [
            MicroBatch(part, self._is_packed)
            for _, own in groupby(rows, key=lambda row: row.adapter)
            for part in fill(units_of(tuple(own)), self.budget, is_packed=self._is_packed)
        ]

    def reduce_budget(self, failed: MicroBatch) -> None:
        # The bits of what follows are those of smaller passes: memory is part of the device.
        self.budget = failed.num_tokens // 2

    def record_pass(self, done: MicroBatch) -> None:
        """Keep the budget: another one would give other bits."""


def share_out(rows: Sequence[BatchRow], num_shares: int) -> list[list[BatchRow]]:
    """Return shares of rows with about equal tokens, for devices that work at the same time.

    They are consecutive units, so that few adapters are in several shares. None exceeds its part
    of all tokens by more than a unit; where there are few units, some are empty.
    """
    shares: list[list[BatchRow]] = [[] for _ in range(num_shares)]
    total = sum(map(len, rows))
    before = 0
    for unit in units_of(rows):
        tokens = sum(map(len, unit))
        # By where its middle lies in all tokens; the first device always has some.
        middle = (2 * before + tokens) * num_shares / (2 * total)
        shares[math.ceil(middle) - 1 if before else 0] += unit
        before += tokens
    return shares


def fill(
    units: Sequence[tuple[BatchRow, ...]], budget: int, *, is_packed: bool
) -> list[tuple[BatchRow, ...]]:
    """Return the rows of consecutive units, as many together as fit into a budget of tokens."""
    parts: list[list[BatchRow]] = []
    num_rows = total = width = 0
    for unit in units:
        num_rows, total = num_rows + len(unit), total + sum(map(len, unit))
        width = max(width, _width(unit))
        if not parts or (total if is_packed else num_rows * width) > budget:
            parts.append([])
            num_rows, total, width = len(unit), sum(map(len, unit)), _width(unit)
        parts[-1] += unit
    return [tuple(part) for part in parts]


def _adapter(unit: tuple[BatchRow, ...]) -> str:
    return unit[0].adapter


def _width(unit: tuple[BatchRow, ...]) -> int:
    return max(map(len, unit))
