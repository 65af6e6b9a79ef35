"""Throughput by number of GPUs: H(n) = a n + c for n > 0, H(0) = 0, or a concave table.

Kong et al. (arXiv 2512.20967), eq. 1, which is linear; a table takes measured scaling.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Protocol

from auctune.domain import InputError
from auctune.domain.checks import check_finite, check_positive


class Scaling(Protocol):
    """Work done in a whole slot by n GPUs."""

    def throughput(self, num_gpus: int) -> Fraction:
        """H(n), exactly as its decimals say, in units of work a slot; 0 for 0 GPUs."""
        ...

    def check_reaches(self, num_gpus: int) -> None:
        """Refuse a count of GPUs for which H is not defined.

        Raises:
            InputError: naming `scaling`.
        """
        ...


@dataclass(frozen=True, slots=True)
class LinearScaling:
    """H(n) = a n + c.

    Attributes:
        a: work a slot that one more GPU adds.
        c: work a slot beside it; below zero where the first GPU gives less than a.
    """

    a: float = 1.0
    c: float = 0.0

    def __post_init__(self) -> None:
        check_finite(self.a, "a", "a number >= 0")
        if not (math.isfinite(self.c) and self.a + self.c > 0):
            raise InputError("c", f"{self.c!r}", "a number with a + c > 0")

    def throughput(self, num_gpus: int) -> Fraction:
        """a n + c, or 0 for 0 GPUs."""
        return num_gpus * as_fraction(self.a) + as_fraction(self.c) if num_gpus else Fraction(0)

    def check_reaches(self, num_gpus: int) -> None:
        """Any count will do."""


@dataclass(frozen=True, slots=True)
class TableScaling:
    """Throughput as it was measured.

    Attributes:
        table: H(1), H(2), ... in work a slot: never falling, and concave.
    """

    table: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.table:
            raise InputError("table", "is empty", "throughput of 1, 2, ... GPUs")
        for i, value in enumerate(self.table):
            check_positive(value, f"table[{i}]", "a number > 0")
        exact = [as_fraction(value) for value in self.table]
        rises = [after - before for before, after in pairwise(exact)]
        for i, rise in enumerate(rises):
            if rise < 0 or (i > 0 and rise > rises[i - 1]):
                raise InputError(
                    f"table[{i + 1}]",
                    f"{self.table[i + 1]!r} after {self.table[i]!r}",
                    "throughput that never falls and whose rises never grow",
                )

    def throughput(self, num_gpus: int) -> Fraction:
        """The entry of `num_gpus`, or 0 for 0 GPUs."""
        return as_fraction(self.table[num_gpus - 1]) if num_gpus else Fraction(0)

    def check_reaches(self, num_gpus: int) -> None:
        """Counts up to the table's length."""
        if num_gpus > len(self.table):
            raise InputError(
                "scaling", f"a table of {len(self.table)} counts", f"one of {num_gpus}, n_max"
            )


def as_fraction(value: float) -> Fraction:
    """The number that a float's shortest decimal stands for: 0.9 is nine tenths."""
    return Fraction(repr(float(value)))
