"""The best schedule over all vendors: by rising price, those that bounds cannot rule out."""

import numpy as np

from auctune.auction.book import Capacity, Floats, Ints, Usage
from auctune.auction.search.choose import consider
from auctune.auction.search.counts import sort_slots
from auctune.auction.search.cover import cover
from auctune.auction.search.dual import dual_price
from auctune.auction.search.gather import gather
from auctune.auction.search.levels import only_type, weigh_sum
from auctune.auction.search.one_type import cheapest_slots
from auctune.auction.search.problem import (
    FOUND,
    NEED_MORE_LABELS,
    NOT_FOUND,
    SLACK,
    UNITS_NEEDED,
    Cells,
    Memory,
    Request,
    Rule,
    Search,
    Thresholds,
    Window,
    lay_out,
)
from auctune.auction.search.thresholds import floor_of_max, search_max
from auctune.numerics.jit import kernel


@kernel
def find_best(
    by_max: bool | None,
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
    masked: bool,
    first: int,
    last: int,
    work: float,
    memory_gb: float,
    throughput: Floats,
    operating_cost: Floats,
    slots_by_cost: Ints,
    quote_price: Floats,
    quote_delay: Ints,
    floats: Floats,
    ints: Ints,
    label_cost: Floats,
    label_ints: Ints,
    best_cells: Ints,
) -> tuple[int, float, float, int, int]:
    """Leave the best schedule over all vendors in `best_cells`.

    Where `by_max` is None, schedules are priced by sums, else by maxima: the compiler leaves out
    what belongs to the other one, which halves its time. The other arguments are the fields of
    Capacity, Usage, lam and phi, `masked` of Rule, Request and Memory, in their order: from
    Python, plain arrays are passed to a kernel far quicker than tuples of them.

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
        slots_by_cost,
        quote_price,
        quote_delay,
    )
    search = lay_out(
        Cells(capacity, usage, lam, phi),
        Rule(by_max is not None, masked),
        request,
        Memory(floats, ints, label_cost, label_ints, best_cells),
        lam.shape[0],
    )
    status = _search_vendors(search, by_max)
    best = search.best
    return status, best.cost[0], best.cost[1], int(best.summary[1]), int(best.summary[2])


@kernel
def _search_vendors(search: Search, by_max: bool | None) -> int:
    request, best = search.request, search.best
    best.cost[0] = np.inf
    origin = int(request.first + np.min(request.quote_delay))
    last = request.last + 1 - origin
    if last <= 0:
        return NOT_FOUND
    gather(search.cells, search.rule, request, origin, search.entries)
    whole = Window(origin, 0, last, 0)
    if by_max is None:
        floor = _floor_of_sum(search, whole)
    else:
        sort_slots(search, whole)
        floor = floor_of_max(search, whole)
    if floor == np.inf:
        return NOT_FOUND
    searched_price, searched_delay = -1.0, np.int64(0)
    # In file order among equal prices. A dearer vendor that is no quicker than one searched
    # before cannot win.
    quote = -1
    for _ in range(len(request.quote_price)):
        quote = _next_quote(request.quote_price, quote)
        price, delay = request.quote_price[quote], request.quote_delay[quote]
        if price + floor > best.cost[0] * (1.0 + SLACK):
            break
        if searched_price >= 0.0 and price > searched_price and delay >= searched_delay:
            continue
        if searched_price < 0.0 or delay < searched_delay:
            searched_price, searched_delay = price, delay
        window = Window(origin, int(request.first + delay - origin), last, quote)
        if window.first >= last:
            continue
        if by_max is None:
            status = _search_sum(search, window)
        else:
            own_floor = floor if window.first == 0 else floor_of_max(search, window)
            if own_floor == np.inf or price + own_floor > best.cost[0] * (1.0 + SLACK):
                continue
            status = search_max(search, window, own_floor)
        if status == NEED_MORE_LABELS:
            return NEED_MORE_LABELS
    return FOUND if best.cost[0] < np.inf else NOT_FOUND


@kernel
def _next_quote(prices: Floats, before: int) -> int:
    """The quote after `before` by rising price, in file order among equals; -1 starts."""
    following = -1
    for i in range(len(prices)):
        if before >= 0 and (
            prices[i] < prices[before] or (prices[i] == prices[before] and i <= before)
        ):
            continue
        if following < 0 or prices[i] < prices[following]:
            following = i
    return following


@kernel
def _floor_of_sum(search: Search, window: Window) -> float:
    """A lower bound on the cost of any schedule in the window, vendors not counted."""
    weight = search.scratch.weight
    weigh_sum(search, window)
    k = only_type(search.units)
    if k >= 0:
        return cheapest_slots(search, window, k, -(-UNITS_NEEDED // search.units[k]))
    return dual_price(weight, search.units, UNITS_NEEDED, window.first, window.last, 0.0, np.inf)[1]


@kernel
def _search_sum(search: Search, window: Window) -> int:
    """Find the best schedule with the window's vendor; keep it if it is the best of all."""
    request, scratch, best = search.request, search.scratch, search.best
    reach = Thresholds(np.inf, np.inf)
    limit = best.cost[0] * (1.0 + SLACK) - request.quote_price[window.quote]
    weigh_sum(search, window)
    k = only_type(search.units)
    if k < 0:
        status, num_cells = cover(search, window, reach, limit)
        if status != FOUND:
            return status
    else:
        num_cells = -(-UNITS_NEEDED // search.units[k])
        cost = cheapest_slots(search, window, k, num_cells)
        if cost == np.inf or cost > limit:
            return NOT_FOUND
        scratch.cell_slots[:num_cells] = window.origin + scratch.heap_slot[:num_cells]
        scratch.cell_types[:num_cells] = k
    consider(search, reach, num_cells, window.quote)
    return FOUND
