"""The search for a task's least-cost schedule over all vendors."""

from typing import Any, NamedTuple

import numpy as np

from auctune.auction.ledger import Capacity, CapacityLedger, Usage
from auctune.auction.search.cells import could_ever_run, gather
from auctune.auction.search.covering import least_weight, search_weights, weigh_sum
from auctune.auction.search.printed import search_printed
from auctune.auction.search.problem import (
    FOUND,
    NEED_MORE_LABELS,
    NOT_FOUND,
    SLACK,
    Cells,
    Memory,
    Request,
    Rule,
    Search,
    Thresholds,
    Window,
    lay_out,
    make_memory,
)
from auctune.auction.search.thresholds import search_thresholds
from auctune.domain import Quote, Schedule, Task
from auctune.numerics.arrays import Floats, Ints
from auctune.numerics.jit import kernel


@kernel
def find_best(
    compute: Floats,
    memory: Floats,
    type_of: Ints,
    nodes_of: Ints,
    first_of: Ints,
    used_compute: Floats,
    used_memory: Floats,
    num_tasks: Ints,
    candidates: Ints,
    num_candidates: Ints,
    lam: Floats,
    phi: Floats,
    by_max: bool,
    printed: bool,
    masked: bool,
    first: int,
    last: int,
    work: float,
    memory_gb: float,
    throughput: Floats,
    operating_cost: Floats,
    quote_price: Floats,
    quote_delay: Ints,
    floats: Floats,
    ints: Ints,
    label_cost: Floats,
    label_ints: Ints,
    best_cells: Ints,
) -> tuple[int, float, float, int, int]:
    """Leave the best schedule over all vendors in `best_cells`.

    The arguments are the fields of Capacity, Usage, lam and phi, Rule, Request and Memory, in their
    order: from Python, plain arrays are passed to a kernel far quicker than tuples of them.

    Returns:
        FOUND, NOT_FOUND, or NEED_MORE_LABELS: then nothing was decided, try with a larger pool;
        its cost, its operating cost, its number of cells, and the index of its quote.
    """
    capacity = Capacity(compute, memory, type_of, nodes_of, first_of)
    usage = Usage(used_compute, used_memory, num_tasks, candidates, num_candidates)
    request = Request(
        first,
        last,
        work,
        memory_gb,
        throughput,
        operating_cost,
        quote_price,
        quote_delay,
    )
    search = lay_out(
        Cells(capacity, usage, lam, phi),
        Rule(by_max, printed, masked),
        request,
        Memory(floats, ints, label_cost, label_ints, best_cells),
        lam.shape[0],
    )
    status = _search_vendors(search)
    best = search.best
    return status, best.cost[0], best.cost[1], int(best.summary[1]), int(best.summary[2])


@kernel
def _search_vendors(search: Search) -> int:
    request, rule, best = search.request, search.rule, search.best
    best.cost[0] = np.inf
    origin = int(request.first + np.min(request.quote_delay))
    last = request.last + 1 - origin
    if last <= 0:
        return NOT_FOUND
    gather(search.cells, rule, request, origin, search.entries)
    whole = Window(origin, 0, last, 0)
    # No schedule costs less, vendors not counted. Its dearest cell is no cheaper than any of its
    # cells, so that this holds for `max` too.
    weigh_sum(search, whole)
    floor = least_weight(search, whole)
    if floor == np.inf:
        return NOT_FOUND
    searched_price, searched_delay = -1.0, np.int64(0)
    # In file order among equal prices. A dearer vendor that is no quicker than one searched
    # before cannot win, if the search is exact.
    quote = -1
    for _ in range(len(request.quote_price)):
        quote = _next_quote(request.quote_price, quote)
        price, delay = request.quote_price[quote], request.quote_delay[quote]
        if price + floor > best.cost[0] * (1.0 + SLACK):
            break
        is_behind = searched_price >= 0.0 and price > searched_price and delay >= searched_delay
        if is_behind and not rule.printed:
            continue
        if searched_price < 0.0 or delay < searched_delay:
            searched_price, searched_delay = price, delay
        window = Window(origin, int(request.first + delay - origin), last, quote)
        if window.first < last and _search_window(search, window) == NEED_MORE_LABELS:
            return NEED_MORE_LABELS
    return FOUND if best.cost[0] < np.inf else NOT_FOUND


@kernel
def _search_window(search: Search, window: Window) -> int:
    """Find the best schedule with the window's vendor; keep it if it is the best of all."""
    if search.rule.printed:
        search_printed(search, window)
        return FOUND
    if search.rule.by_max:
        return search_thresholds(search, window)
    weigh_sum(search, window)
    return search_weights(search, window, Thresholds(np.inf, np.inf))


@kernel
def _next_quote(prices: Floats, before: int) -> int:
    """Return the quote after `before` by rising price, in file order among equals; -1 starts."""
    following = -1
    for i in range(len(prices)):
        if before >= 0 and (
            prices[i] < prices[before] or (prices[i] == prices[before] and i <= before)
        ):
            continue
        if following < 0 or prices[i] < prices[following]:
            following = i
    return following


_FIRST_LABELS = 4096


class BestSchedule(NamedTuple):
    """The best schedule of a task, as arrays.

    Attributes:
        cost: c, money, vendor included.
        operating_cost: the part of it that running the cells costs.
        slots, nodes: of its cells, in slot order: rows of the ledger, and indices.
        quote: the vendor chosen; None where none is needed.
    """

    cost: float
    operating_cost: float
    slots: Ints
    nodes: Ints
    quote: Quote | None


class ScheduleSearch:
    """Finds least-cost schedules in a ledger under given prices.

    Args:
        ledger: the cells.
        lam, phi: [T, N] prices, money per sample and per GB-slot; read at each search.
        aggregate: `max` or `sum`.
        masked: look only at cells with room for the task.
        exact: whether `max` is searched exactly, or by the printed recursion; `sum` always is.
    """

    def __init__(
        self,
        ledger: CapacityLedger,
        lam: Floats,
        phi: Floats,
        *,
        aggregate: str,
        masked: bool,
        exact: bool = True,
    ) -> None:
        self._ledger = ledger
        self._cells = (*ledger.capacity, *ledger.usage, lam, phi)
        self._pricing = (aggregate == "max", not exact)
        self._masked = masked
        num_slots, num_nodes, num_types = *lam.shape, len(ledger.type_names)
        self._shape = (num_slots, num_nodes, num_types)
        self._num_labels = _FIRST_LABELS
        self._memory = make_memory(*self._shape, self._num_labels)

    def request(self, task: Task, now: int, deadline: int | None = None) -> Request:
        """`task` as the kernels read it, to run in slots max(now, arrival)..deadline."""
        throughput = self._ledger.throughput(task)
        prices = [float(quote.price) for quote in task.quotes] or [0.0]
        delays = [quote.delay for quote in task.quotes] or [0]
        ledger = self._ledger
        return Request(
            ledger.row(max(now, task.arrival)),
            ledger.row(task.deadline if deadline is None else deadline),
            task.work,
            task.memory_gb,
            throughput,
            ledger.operating_cost(task, throughput),
            np.array(prices),
            np.array(delays, dtype=np.int64),
        )

    def find(self, request: Request, task: Task, *, masked: bool = False) -> BestSchedule | None:
        """Return the best schedule, or None where there is none.

        Args:
            request: of the task.
            task: the task, for its quotes.
            masked: look only at cells with room, whatever the rule is.
        """
        is_masked = masked or self._masked
        while True:
            rule = Rule(*self._pricing, is_masked)
            arguments: tuple[Any, ...] = (*self._cells, *rule, *request, *self._memory)
            status, cost, operating, num_cells, quote = find_best(*arguments)
            if status != NEED_MORE_LABELS:
                break
            self._num_labels *= 2
            self._memory = make_memory(*self._shape, self._num_labels)
        if status != FOUND:
            return None
        slots, nodes = self._memory.best_cells[:, :num_cells].copy()
        return BestSchedule(
            cost, operating, slots, nodes, task.quotes[quote] if task.quotes else None
        )

    def could_ever_run(self, request: Request) -> bool:
        """Return whether there is a schedule in an empty market."""
        return could_ever_run(self._ledger.capacity, request)

    def schedule(self, found: BestSchedule) -> Schedule:
        """`found` in the terms of the domain."""
        cells = self._ledger.cells(found.slots, found.nodes)
        return Schedule(cells, None if found.quote is None else found.quote.vendor)
