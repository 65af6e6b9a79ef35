"""The public face of the schedule search: a task in, its best schedule out."""

from typing import Any, NamedTuple

import numpy as np

from auctune.auction.book import Book, Floats, Ints
from auctune.auction.search.gather import could_ever_run
from auctune.auction.search.problem import (
    FOUND,
    NEED_MORE_LABELS,
    Request,
    make_memory,
)
from auctune.auction.search.vendors import find_best
from auctune.domain import Quote, Schedule, Task

_FIRST_LABELS = 4096


class Found(NamedTuple):
    """The best schedule of a task, as arrays.

    Attributes:
        cost: c, money, vendor included.
        operating_cost: the part of it that running the cells costs.
        slots, nodes: of its cells, in slot order: rows of the book, and indices.
        quote: the vendor chosen; none where none is needed.
    """

    cost: float
    operating_cost: float
    slots: Ints
    nodes: Ints
    quote: Quote | None


class ScheduleSearch:
    """Finds least-cost schedules in a book under given prices.

    Args:
        book: the cells.
        lam, phi: [T, N] prices, money per sample and per GB-slot; read at each search.
        aggregate: `max` or `sum`.
        masked: look only at cells with room for the task.
    """

    def __init__(
        self, book: Book, lam: Floats, phi: Floats, *, aggregate: str, masked: bool
    ) -> None:
        self._book = book
        self._cells = (*book.capacity, *book.usage, lam, phi)
        self._by_max = True if aggregate == "max" else None
        self._masked = masked
        num_slots, num_nodes, num_types = *lam.shape, len(book.type_names)
        self._shape = (num_slots, num_nodes, num_types)
        self._num_labels = _FIRST_LABELS
        self._memory = make_memory(*self._shape, self._num_labels)

    def request(self, task: Task, now: int, deadline: int | None = None) -> Request:
        """`task` as the kernels read it, to run in slots max(now, arrival)..deadline."""
        throughput = self._book.throughput(task)
        prices = [float(quote.price) for quote in task.quotes] or [0.0]
        delays = [quote.delay for quote in task.quotes] or [0]
        book = self._book
        cost = book.operating_cost(task, throughput)
        # A task's operating cost is a multiple of its type's energy cost: the order is the same.
        by_cost = book.rows_by_energy
        if task.operating_cost is not None:
            by_cost = np.argsort(cost, axis=1, kind="stable")
        return Request(
            book.row(max(now, task.arrival)),
            book.row(task.deadline if deadline is None else deadline),
            task.work,
            task.memory_gb,
            throughput,
            cost,
            by_cost,
            np.array(prices),
            np.array(delays, dtype=np.int64),
        )

    def find(self, request: Request, task: Task, *, masked: bool = False) -> Found | None:
        """The best schedule, or none where there is none.

        Args:
            request: of the task.
            task: the task, for its quotes.
            masked: look only at cells with room, whatever the rule is.
        """
        is_masked = masked or self._masked
        while True:
            arguments: tuple[Any, ...] = (*self._cells, is_masked, *request, *self._memory)
            status, cost, operating, num_cells, quote = find_best(self._by_max, *arguments)
            if status != NEED_MORE_LABELS:
                break
            self._num_labels *= 2
            self._memory = make_memory(*self._shape, self._num_labels)
        if status != FOUND:
            return None
        slots, nodes = self._memory.best_cells[:, :num_cells].copy()
        return Found(cost, operating, slots, nodes, task.quotes[quote] if task.quotes else None)

    def could_ever_run(self, request: Request) -> bool:
        """Whether there is a schedule in an empty market."""
        return could_ever_run(self._book.capacity, request)

    def schedule(self, found: Found) -> Schedule:
        """`found` in the terms of the domain."""
        cells = self._book.cells(found.slots, found.nodes)
        return Schedule(cells, None if found.quote is None else found.quote.vendor)
