"""What the kernels of the dual's answers read and write. Shapes: T slots, K node types."""

from typing import NamedTuple

import numpy as np

from auctune.numerics.arrays import Floats, Ints
from auctune.numerics.jit import kernel


class Window(NamedTuple):
    """The slots of one task."""

    arrival: int
    begin: int  # the first in which it could run, with its quickest vendor
    last: int  # its deadline


class Buffers(NamedTuple):
    """Room that answers use and leave."""

    weight: Floats  # [T, K] cost of a cell; infinite where it is in no answer
    least: Floats  # [T]
    other_least: Floats  # [T]
    sums: Floats  # [T + 1]
    counts: Ints  # [T + 1]
    start_price: Floats  # [T] of the vendor with which a task could start there


class AggregateDemand(NamedTuple):
    """Where a task's cells are added up."""

    samples: Floats  # [T, K]
    gigabytes: Floats  # [T, K]
    times: float  # how many such tasks there are
    memory_gb: float  # of one of them


@kernel
def make_buffers(num_slots: int, num_types: int) -> Buffers:
    """Room for the answers of one call."""
    return Buffers(
        np.empty((num_slots, num_types)),
        np.empty(num_slots),
        np.empty(num_slots),
        np.empty(num_slots + 1),
        np.empty(num_slots + 1, dtype=np.int64),
        np.empty(num_slots),
    )


@kernel
def price_starts(
    arrival: int, begin: int, last: int, prices: Floats, delays: Ints, start_price: Floats
) -> None:
    """Set the least price of a vendor after whose work a slot is the first; else infinite."""
    for t in range(begin, last + 1):
        start_price[t] = np.inf
    for q in range(len(prices)):
        t = arrival + delays[q]
        if t <= last and prices[q] < start_price[t]:
            start_price[t] = prices[q]


@kernel
def count_cells(needed: float, s: float, most: int) -> int:
    """Cells of s samples that the work needs, or `most`, if it needs more than those."""
    # The quotient may be more than any integer.
    return int(min(np.ceil(needed / s), float(most)))


@kernel
def keep_least(least: Floats, size: int, most: int, w: float) -> int:
    """Keep the `most` least of the numbers seen, sorted; the new size."""
    if size < most:
        place = size
        size += 1
    elif w < least[most - 1]:
        place = most - 1
    else:
        return size
    while place > 0 and least[place - 1] > w:
        least[place] = least[place - 1]
        place -= 1
    least[place] = w
    return size
