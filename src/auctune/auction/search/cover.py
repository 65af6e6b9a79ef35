"""The least-cost schedule over several node types under fixed thresholds, exactly.

Labels are partial schedules (units done, cost, number of cells), extended slot by slot. A label
goes when another one has done at least as much for less, or for the same with an earlier place in
the tie order; and when even the dual bound on what it still needs takes it past the best schedule
known. Units are whole numbers, so sums of equal cells are equal in any order.

What is left is small: the gap between the dual bound and the optimum is at most about one cell's
cost, and only labels within that gap live.
"""

import numpy as np

from auctune.auction.search.choose import lowest_node
from auctune.auction.search.dual import dual_price, fill_rest
from auctune.auction.search.problem import (
    FOUND,
    NEED_MORE_LABELS,
    NOT_FOUND,
    Labels,
    Request,
    Scratch,
    Search,
    Thresholds,
    Window,
)
from auctune.auction.tolerance import TIE
from auctune.numerics.jit import kernel


@kernel
def cover(search: Search, window: Window, reach: Thresholds, limit: float) -> tuple[int, int]:
    """Find the best cells for the weights in `scratch`.

    Args:
        reach: thresholds that the weights were made under, for the tie order.
        limit: a schedule that costs more is of no use.

    Returns:
        Status, and the number of cells left in scratch.cell_slots and scratch.cell_types.
    """
    request, scratch, labels = search.request, search.scratch, search.labels
    first, last = window.first, window.last
    mu, bound, feasible = dual_price(request, scratch, first, last)
    slack = 1e-11 * abs(bound)
    if bound == np.inf or bound > limit + slack:
        return NOT_FOUND, 0
    fill_rest(request, scratch, first, last, mu)
    slack += 1e-11 * scratch.rest[first]
    limit = min(limit, feasible) + slack
    noise = 1e-14 * scratch.rest[first]
    num_types = len(request.units)
    labels.units[0], labels.cost[0], labels.num_cells[0] = 0, 0.0, 0
    labels.parent[0], labels.at[0] = -1, -1
    labels.current[0] = 0
    size, used = 1, 1
    done = -1
    for j in range(first, last):
        if used + size * num_types + 1 > len(labels.cost):
            return NEED_MORE_LABELS, 0
        old_size = size
        size = 0
        for i in range(old_size):
            if _hopeful(request, scratch, labels, labels.current[i], mu, j + 1, limit):
                labels.merged[size] = labels.current[i]
                size += 1
        for k in range(num_types):
            w = scratch.weight[j * num_types + k]
            if w == np.inf:
                continue
            num_shifted = 0
            for i in range(old_size):
                label = labels.current[i]
                _extend(request, labels, label, used, j * num_types + k, k, w)
                if labels.units[used] >= request.units_needed:
                    if done < 0 or _better_done(search, window, reach, used, done):
                        done = used
                        used += 1
                        limit = min(limit, labels.cost[done] * (1.0 + TIE) + noise)
                elif _hopeful(request, scratch, labels, used, mu, j + 1, limit):
                    labels.shifted[num_shifted] = used
                    num_shifted += 1
                    used += 1
            if num_shifted:
                size = _merge(search, window, reach, size, num_shifted)
        if done >= 0:
            # From here on a schedule ends later: one that ties with the best loses.
            limit = min(limit, labels.cost[done] * (1.0 - TIE) + noise)
        labels.current[:size] = labels.merged[:size]
        if size == 0:
            break
    if done < 0:
        return NOT_FOUND, 0
    return FOUND, _write_cells(search, window, done)


@kernel
def _hopeful(
    request: Request,
    scratch: Scratch,
    labels: Labels,
    label: int,
    mu: float,
    j: int,
    limit: float,
) -> bool:
    """Whether slots j.. may still complete the label within the limit."""
    missing = float(request.units_needed - labels.units[label])
    return bool(labels.cost[label] + mu * missing - scratch.rest[j] <= limit)


@kernel
def _extend(
    request: Request, labels: Labels, label: int, new: int, at: int, k: int, w: float
) -> None:
    labels.units[new] = labels.units[label] + request.units[k]
    labels.cost[new] = labels.cost[label] + w
    labels.num_cells[new] = labels.num_cells[label] + 1
    labels.parent[new] = label
    labels.at[new] = at


@kernel
def _lists_before(search: Search, window: Window, reach: Thresholds, a: int, b: int) -> bool:
    """Whether the list of (slot, node) of `a` comes before that of `b`, of the same length."""
    labels = search.labels
    num_types = len(search.request.units)
    before = False
    while a != b:
        at_a, at_b = labels.at[a], labels.at[b]
        if at_a != at_b:
            slot_a, slot_b = at_a // num_types, at_b // num_types
            if slot_a != slot_b:
                before = slot_a < slot_b
            else:
                t = window.origin + slot_a
                node_a = lowest_node(search, reach, t, at_a % num_types)
                node_b = lowest_node(search, reach, t, at_b % num_types)
                before = node_a < node_b
        a, b = labels.parent[a], labels.parent[b]
    return before


@kernel
def _better_done(search: Search, window: Window, reach: Thresholds, new: int, done: int) -> bool:
    """Whether the complete label `new` precedes the complete label `done`."""
    labels = search.labels
    cost, incumbent = labels.cost[new], labels.cost[done]
    if abs(cost - incumbent) > TIE * max(cost, incumbent):
        return bool(cost < incumbent)
    num_types = len(search.request.units)
    finish, best_finish = labels.at[new] // num_types, labels.at[done] // num_types
    if finish != best_finish:
        return bool(finish < best_finish)
    if labels.num_cells[new] != labels.num_cells[done]:
        return bool(labels.num_cells[new] < labels.num_cells[done])
    return _lists_before(search, window, reach, new, done)


@kernel
def _merge(search: Search, window: Window, reach: Thresholds, size: int, num_shifted: int) -> int:
    """Merge `shifted` into `merged[:size]`, both by falling units, dropping dominated labels."""
    labels = search.labels
    # Merge from the back into the free end, then sweep forward.
    total = size + num_shifted
    i, j = size - 1, num_shifted - 1
    for place in range(total - 1, -1, -1):
        if j < 0:
            break
        if i >= 0 and labels.units[labels.merged[i]] <= labels.units[labels.shifted[j]]:
            labels.merged[place] = labels.merged[i]
            i -= 1
        else:
            labels.merged[place] = labels.shifted[j]
            j -= 1
    kept = 0
    for place in range(total):
        label = labels.merged[place]
        while kept and _dominates(search, window, reach, label, labels.merged[kept - 1]):
            kept -= 1
        if kept and _dominates(search, window, reach, labels.merged[kept - 1], label):
            continue
        labels.merged[kept] = label
        kept += 1
    return kept


@kernel
def _dominates(search: Search, window: Window, reach: Thresholds, a: int, b: int) -> bool:
    """Whether no completion of `b` can precede the same completion of `a`."""
    labels = search.labels
    if labels.units[a] < labels.units[b]:
        return False
    cost_a, cost_b = labels.cost[a], labels.cost[b]
    if abs(cost_a - cost_b) > TIE * max(cost_a, cost_b):
        return bool(cost_a < cost_b)
    if labels.num_cells[a] != labels.num_cells[b]:
        return bool(labels.num_cells[a] < labels.num_cells[b])
    return not _lists_before(search, window, reach, b, a)


@kernel
def _write_cells(search: Search, window: Window, label: int) -> int:
    labels, scratch = search.labels, search.scratch
    num_types = len(search.request.units)
    num_cells = int(labels.num_cells[label])
    for i in range(num_cells - 1, -1, -1):
        scratch.cell_slots[i] = window.origin + labels.at[label] // num_types
        scratch.cell_types[i] = labels.at[label] % num_types
        label = labels.parent[label]
    return num_cells
