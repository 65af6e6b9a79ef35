"""Exponential prices: L * (U / L) ** (used / capacity), for compute and memory each.

An empty cell costs L, a full one U, money per sample and per GB-slot. With L = U = 0, as long as
nothing is known, cells cost nothing beyond their operation.
"""

import numpy as np

from auctune.auction.book import Book, Capacity, Floats, Ints, Usage
from auctune.auction.horizon import Shift, load_rows, save_rows
from auctune.auction.pricing.pricing import Lesson
from auctune.auction.pricing.revealed import RevealedRange
from auctune.auction.search.problem import Request
from auctune.domain import Saved, Task
from auctune.numerics.jit import kernel

Range = tuple[float, float]


class ExponentialPricing:
    """Prices that follow the use of each cell.

    Args:
        book: the cells.
        compute, memory: (L, U) for each; none: as bids of earlier slots reveal.
    """

    def __init__(self, book: Book, compute: Range | None, memory: Range | None) -> None:
        self._capacity, self._usage = book.capacity, book.usage
        self._horizon = book.horizon
        self._fixed = (compute, memory)
        self._revealed = RevealedRange()
        self.lam: Floats = np.zeros_like(book.usage.compute)
        self.phi: Floats = np.zeros_like(book.usage.memory)
        self._price_between(0, self._horizon.rows.stop)

    def begin(self, now: int) -> None:
        """Nothing: prices follow use."""

    def start(self, now: int) -> Lesson | None:
        """Take over the range that earlier slots revealed."""
        if None not in self._fixed or not self._revealed.is_new:
            return None
        compute, memory = self._revealed.learn()
        lesson = {"compute": np.array(compute), "memory": np.array(memory)}
        self.learned(now, lesson)
        return lesson

    def within(self) -> Lesson | None:
        """Nothing: ranges are those of earlier slots."""
        return None

    def is_due(self) -> bool:
        """Never."""
        return False

    def learned(self, now: int, lesson: Lesson) -> None:
        """Price what is left to sell by these ranges."""
        self._revealed.learned(_pair(lesson["compute"]), _pair(lesson["memory"]))
        self._price_between(now - self._horizon.origin, self._horizon.rows.stop)

    def moved(self, shift: Shift) -> None:
        """Cells enter empty."""
        shift.move(self.lam, 0.0)
        shift.move(self.phi, 0.0)
        self._price_between(shift.first, shift.last)

    def chose(self, slots: Ints, nodes: Ints, request: Request, value: float) -> None:
        """Nothing: only what is sold moves these prices."""

    def booked(self, slots: Ints, nodes: Ints) -> None:
        """Price these cells by their new use."""
        capacity, usage = self._capacity, self._usage
        compute, memory = self._ranges()
        _price_cells(
            capacity.compute,
            capacity.memory,
            capacity.type_of,
            usage.compute,
            usage.memory,
            slots,
            nodes,
            *compute,
            *memory,
            self.lam,
            self.phi,
        )

    def saw(self, task: Task) -> None:
        """Remember the bid for later slots."""
        if None in self._fixed:
            self._revealed.saw(task)

    def save(self) -> Saved:
        """The prices, and what was revealed."""
        prices = save_rows(self._horizon, lam=self.lam, phi=self.phi)
        return {**prices, "revealed": self._revealed.save()}

    def load(self, saved: Saved) -> None:
        """Take them over."""
        load_rows(self._horizon, saved, lam=self.lam, phi=self.phi)
        self._revealed.load(saved["revealed"])

    def _ranges(self) -> tuple[Range, Range]:
        compute, memory = self._fixed
        return compute or self._revealed.compute, memory or self._revealed.memory

    def _price_between(self, first: int, last: int) -> None:
        """Price all cells of the rows [first, last) anew."""
        _price_rows(self._capacity, self._usage, first, last, *self._ranges(), self.lam, self.phi)


def _pair(numbers: Floats) -> Range:
    low, high = numbers.tolist()
    return low, high


@kernel
def _price_cells(
    compute: Floats,
    memory: Floats,
    type_of: Ints,
    used_compute: Floats,
    used_memory: Floats,
    slots: Ints,
    nodes: Ints,
    compute_low: float,
    compute_high: float,
    memory_low: float,
    memory_high: float,
    lam: Floats,
    phi: Floats,
) -> None:
    # Called once an admission: plain arrays pass far quicker than tuples of them.
    for i in range(len(slots)):
        t, n = slots[i], nodes[i]
        k = type_of[n]
        lam[t, n] = _price(compute_low, compute_high, used_compute[t, n] / compute[k])
        phi[t, n] = _price(memory_low, memory_high, used_memory[t, n] / memory[k])


@kernel
def _price_rows(
    capacity: Capacity,
    usage: Usage,
    first: int,
    last: int,
    compute: Range,
    memory: Range,
    lam: Floats,
    phi: Floats,
) -> None:
    for t in range(first, last):
        for n in range(lam.shape[1]):
            k = capacity.type_of[n]
            lam[t, n] = _price(compute[0], compute[1], usage.compute[t, n] / capacity.compute[k])
            phi[t, n] = _price(memory[0], memory[1], usage.memory[t, n] / capacity.memory[k])


@kernel
def _price(low: float, high: float, used: float) -> float:
    # Most cells are empty; a power costs more than all else here.
    if low <= 0.0 or used == 0.0:
        return low
    if used == np.inf:  # of a lost node nothing is for sale
        return high
    return float(low * (high / low) ** used)
