"""The paper's prices (Zheng et al., ICPP 2024, eqs. 7 and 8).

For each cell of the chosen schedule, with C the node's compute and m its memory beside the base:
 lam += lam * s / C + alpha * bbar * s / C
 phi += phi * r / m + beta * bbar * r / m
Prices start at 0 and never fall, and depend on the order in which tasks came.
"""

import numpy as np

from auctune.auction.book import Book, Floats, Ints
from auctune.auction.horizon import Shift, load_rows, save_rows
from auctune.auction.pricing.pricing import Lesson
from auctune.auction.search.problem import Request
from auctune.domain import Saved, Task


class PaperPricing:
    """Prices that rise with each task that chooses a cell.

    Args:
        book: the cells.
        alpha, beta: >= 0. With both fixed in advance the auction is truthful; the paper's own
            choice, the greatest bid per sample and per GB of the whole instance, is not known in
            advance and contains the bid being priced.
    """

    def __init__(self, book: Book, alpha: float, beta: float) -> None:
        self._capacity, self._horizon = book.capacity, book.horizon
        self._alpha, self._beta = alpha, beta
        self.lam: Floats = np.zeros_like(book.usage.compute)
        self.phi: Floats = np.zeros_like(book.usage.memory)

    def begin(self, now: int) -> None:
        """Nothing: time alone moves no price."""

    def start(self, now: int) -> Lesson | None:
        """Nothing: alpha and beta are fixed."""
        return None

    def within(self) -> Lesson | None:
        """Nothing: bids that are not sold to teach nothing."""
        return None

    def is_due(self) -> bool:
        """Never."""
        return False

    def learned(self, now: int, lesson: Lesson) -> None:
        """No lesson is ever recorded."""

    def moved(self, shift: Shift) -> None:
        """Cells enter at a price of 0."""
        shift.move(self.lam, 0.0)
        shift.move(self.phi, 0.0)

    def chose(self, slots: Ints, nodes: Ints, request: Request, value: float) -> None:
        """Raise the prices of these cells."""
        types = self._capacity.type_of[nodes]
        samples = request.throughput[types]
        # Who takes a line of a menu may bid less than the vendor and the cells' running cost.
        density = max(value, 0.0) / float(samples.sum() + request.memory_gb * len(slots))
        compute = samples / self._capacity.compute[types]
        memory = request.memory_gb / self._capacity.memory[types]
        self.lam[slots, nodes] += (self.lam[slots, nodes] + self._alpha * density) * compute
        self.phi[slots, nodes] += (self.phi[slots, nodes] + self._beta * density) * memory

    def booked(self, slots: Ints, nodes: Ints) -> None:
        """Nothing: `chose` has moved the prices."""

    def saw(self, task: Task) -> None:
        """Nothing: alpha and beta are fixed."""

    def save(self) -> Saved:
        """The prices."""
        return save_rows(self._horizon, lam=self.lam, phi=self.phi)

    def load(self, saved: Saved) -> None:
        """Take them over."""
        load_rows(self._horizon, saved, lam=self.lam, phi=self.phi)
