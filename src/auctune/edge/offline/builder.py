"""A program put together block by block: columns, rows, and entries in any order."""

from collections.abc import Sequence

import numpy as np

from auctune.edge.arrays import Floats, Ints
from auctune.numerics.highs import INFINITY, Program


class ProgramBuilder:
    """Collects a program that is to be maximized."""

    def __init__(self) -> None:
        self._cost: list[Floats] = []
        self._upper: list[Floats] = []
        self._whole: list[Floats] = []
        self._row_lower: list[float] = []
        self._row_upper: list[float] = []
        self._rows: list[Ints] = []
        self._columns: list[Ints] = []
        self._values: list[Floats] = []
        self.num_columns = 0

    @property
    def num_rows(self) -> int:
        """Rows so far."""
        return len(self._row_lower)

    def columns(
        self,
        shape: tuple[int, ...],
        cost: Floats | float,
        upper: Floats | Ints | float,
        *,
        whole: bool,
    ) -> Ints:
        """New columns from 0 to `upper`; their indices, in that shape."""
        count = int(np.prod(shape))
        self._cost.append(np.broadcast_to(cost, shape).astype(np.float64).ravel())
        self._upper.append(np.broadcast_to(upper, shape).astype(np.float64).ravel())
        self._whole.append(np.full(count, float(whole)))
        self.num_columns += count
        return np.arange(self.num_columns - count, self.num_columns).reshape(shape)

    def row(
        self,
        terms: Sequence[tuple[Ints, Floats | float]],
        lower: float = -INFINITY,
        upper: float = INFINITY,
    ) -> int:
        """A new row: the sum of coefficients times columns; its index."""
        index = self.num_rows
        self._row_lower.append(lower)
        self._row_upper.append(upper)
        for columns, values in terms:
            self.add(index, columns, values)
        return index

    def add(self, row: int, columns: Ints, values: Floats | float) -> None:
        """More terms of a row; what is there twice is added up."""
        flat = np.atleast_1d(columns).ravel()
        self._rows.append(np.full(len(flat), row, dtype=np.int64))
        self._columns.append(flat)
        self._values.append(np.broadcast_to(values, np.shape(columns)).astype(np.float64).ravel())

    def build(self) -> Program:
        """The program."""
        rows, columns = np.concatenate(self._rows), np.concatenate(self._columns)
        values = np.concatenate(self._values)
        keys, inverse = np.unique(columns * self.num_rows + rows, return_inverse=True)
        summed: Floats = np.zeros(len(keys))
        np.add.at(summed, inverse, values)
        counts = np.bincount(keys // self.num_rows, minlength=self.num_columns)
        whole = np.concatenate(self._whole) > 0
        return Program(
            cost=np.concatenate(self._cost),
            lower=np.zeros(self.num_columns),
            upper=np.concatenate(self._upper),
            row_lower=np.array(self._row_lower),
            row_upper=np.array(self._row_upper),
            starts=np.concatenate(([0], np.cumsum(counts))).astype(np.int32),
            rows=(keys % self.num_rows).astype(np.int32),
            values=summed,
            whole=whole if whole.any() else None,
            maximize=True,
        )
