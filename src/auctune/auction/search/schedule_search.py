"""The public face of the schedule search: a task in, its best schedule out."""

from dataclasses import dataclass

import numpy as np

from auctune.auction.book import Book, Floats, Ints
from auctune.auction.search.gather import could_ever_run
from auctune.auction.search.problem import (
    FOUND,
    MAX,
    NEED_MORE_LABELS,
    SUM,
    WORK_UNITS,
    Cells,
    Request,
    Rule,
    Search,
    make_best,
    make_entries,
    make_labels,
    make_scratch,
)
from auctune.auction.search.vendors import find_best
from auctune.auction.tolerance import FIT
from auctune.domain import Cell, Quote, Schedule, Task

_FIRST_LABELS = 4096


@dataclass(frozen=True, slots=True)
class Found:
    """The best schedule of a task, as arrays.

    Attributes:
        cost: c, money, vendor included.
        operating_cost: the part of it that running the cells costs.
        slots, nodes: of its cells, in slot order.
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
        self._cells = Cells(book.capacity, book.usage, lam, phi)
        self._rule = Rule(MAX if aggregate == "max" else SUM, masked)
        # A task's operating cost is a multiple of its type's energy cost: the order is the same.
        self._slots_by_energy: Ints = np.argsort(book.capacity.energy_cost, axis=1, kind="stable")
        num_slots, num_nodes, num_types = *lam.shape, len(book.type_names)
        self._entries = make_entries(num_slots, num_nodes, num_types)
        self._scratch = make_scratch(num_slots, num_nodes, num_types)
        self._labels = make_labels(_FIRST_LABELS)
        self._best = make_best(num_slots)

    def request(self, task: Task, now: int, deadline: int | None = None) -> Request:
        """`task` as the kernels read it, to run in slots max(now, arrival)..deadline."""
        throughput = self._book.throughput(task)
        prices = [float(quote.price) for quote in task.quotes] or [0.0]
        delays = [quote.delay for quote in task.quotes] or [0]
        units = np.minimum(throughput / task.work, 1.0) * WORK_UNITS
        cost = self._book.operating_cost(task, throughput)
        by_cost = self._slots_by_energy
        if task.operating_cost is not None:
            by_cost = np.argsort(cost, axis=1, kind="stable")
        return Request(
            first=max(now, task.arrival),
            last=task.deadline if deadline is None else deadline,
            work=task.work,
            memory_gb=task.memory_gb,
            throughput=throughput,
            units=np.rint(units).astype(np.int64),
            units_needed=int(WORK_UNITS * (1 - FIT)),
            operating_cost=cost,
            slots_by_cost=by_cost,
            quote_price=np.array(prices),
            quote_delay=np.array(delays, dtype=np.int64),
        )

    def find(self, request: Request, task: Task) -> Found | None:
        """The best schedule, or none where there is none."""
        status = NEED_MORE_LABELS
        while status == NEED_MORE_LABELS:
            status = find_best(self._search(request))
            if status == NEED_MORE_LABELS:
                self._labels = make_labels(2 * len(self._labels.cost))
        if status != FOUND:
            return None
        count, quote = int(self._best.summary[1]), int(self._best.summary[2])
        return Found(
            cost=float(self._best.cost[0]),
            operating_cost=float(self._best.cost[1]),
            slots=self._best.slots[:count].copy(),
            nodes=self._best.nodes[:count].copy(),
            quote=task.quotes[quote] if task.quotes else None,
        )

    def could_ever_run(self, request: Request) -> bool:
        """Whether there is a schedule in an empty market."""
        return could_ever_run(self._book.capacity, request)

    def schedule(self, found: Found) -> Schedule:
        """`found` in the terms of the domain."""
        names = self._book.node_ids
        pairs = zip(found.slots.tolist(), found.nodes.tolist(), strict=True)
        cells = tuple(Cell(slot, names[node]) for slot, node in pairs)
        return Schedule(cells, None if found.quote is None else found.quote.vendor)

    def _search(self, request: Request) -> Search:
        return Search(
            self._cells,
            self._rule,
            request,
            self._entries,
            self._scratch,
            self._labels,
            self._best,
        )
