"""The least-cost cells where several node types run the task, exactly.

Labels are partial schedules (units done, cost, number of cells), extended slot by slot. A label
goes when another one has done at least as much for less, or for the same with an earlier place
in the tie order; and when even the dual bound on what it still needs takes it past the best
schedule known. Units are whole numbers, so sums of equal cells are equal in any order.

What is left is small: the gap between the dual bound and the optimum is at most about one cell's
cost, and only labels within that gap live.
"""

import numpy as np

from auctune.auction.search.cells import lowest_node
from auctune.auction.search.lower_bound import dual_price, fill_rest
from auctune.auction.search.problem import (
    FOUND,
    NEED_MORE_LABELS,
    NOT_FOUND,
    UNITS_NEEDED,
    Search,
    Thresholds,
    Window,
)
from auctune.numerics.arrays import TIE, Floats, Ints
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
    weight, rest = search.scratch.weight, search.scratch.rest
    samples, needed = search.units, UNITS_NEEDED
    first, last = window.first, window.last
    last_mu = search.scratch.mu
    mu, bound, feasible = dual_price(weight, samples, needed, first, last, last_mu[0], limit)
    if bound == np.inf:
        return NOT_FOUND, 0
    last_mu[0] = mu
    if bound > limit:
        return NOT_FOUND, 0
    slack = 1e-11 * abs(bound)
    fill_rest(weight, samples, first, last, mu, rest)
    noise = 1e-14 * rest[first]
    limit = min(limit, feasible) + slack + 1000.0 * noise
    labels = search.labels
    units, cost, num_cells = labels.units, labels.cost, labels.num_cells
    parent, at_of = labels.parent, labels.at
    current, shifted, merged = labels.current, labels.shifted, labels.merged
    num_types = len(samples)
    units[0], cost[0], num_cells[0], parent[0], at_of[0] = 0, 0.0, 0, -1, -1
    current[0] = 0
    size, used, done = 1, 1, -1
    for j in range(first, last):
        if used + size * num_types + 1 > len(cost):
            return NEED_MORE_LABELS, 0
        # A label that has done u units may still become best if its cost is at most
        # limit - mu * (needed - u) + rest.
        allowance = limit - mu * float(needed) + rest[j + 1]
        old_size, size = size, _keep_hopeful(units, cost, current, size, mu, allowance, merged)
        for k in range(num_types):
            at = j * num_types + k
            w = weight[at]
            if w == np.inf:
                continue
            num_shifted = 0
            for i in range(old_size):
                label = current[i]
                new_units, new_cost = units[label] + samples[k], cost[label] + w
                if new_units < needed:
                    if new_cost - mu * float(new_units) > allowance:
                        continue
                elif new_cost > limit:
                    continue
                units[used], cost[used], parent[used], at_of[used] = new_units, new_cost, label, at
                num_cells[used] = num_cells[label] + 1
                if new_units < needed:
                    shifted[num_shifted] = used
                    num_shifted += 1
                    used += 1
                elif done < 0 or _better_done(search, window, reach, used, done):
                    done = used
                    used += 1
                    limit = min(limit, cost[done] * (1.0 + TIE) + noise)
            if num_shifted:
                size = _merge(search, window, reach, size, num_shifted)
        if done >= 0:
            # From here on a schedule ends later: one that ties with the best loses.
            limit = min(limit, cost[done] * (1.0 - TIE) + noise)
        current[:size] = merged[:size]
        if size == 0:
            break
    if done < 0:
        return NOT_FOUND, 0
    return FOUND, _write_cells(search, window, done)


@kernel
def _keep_hopeful(
    units: Ints,
    cost: Floats,
    current: Ints,
    size: int,
    mu: float,
    allowance: float,
    merged: Ints,
) -> int:
    """Copy the labels whose cost less mu * units is within the allowance: they may still win."""
    kept = 0
    for i in range(size):
        label = current[i]
        if cost[label] - mu * float(units[label]) <= allowance:
            merged[kept] = label
            kept += 1
    return kept


@kernel
def _merge(search: Search, window: Window, reach: Thresholds, size: int, num_shifted: int) -> int:
    """Merge `shifted` into `merged[:size]`, both by falling units, dropping dominated labels."""
    labels = search.labels
    units, cost, num_cells = labels.units, labels.cost, labels.num_cells
    shifted, merged = labels.shifted, labels.merged
    # Merge from the back into the free end, then sweep forward.
    total = size + num_shifted
    i, j = size - 1, num_shifted - 1
    for place in range(total - 1, -1, -1):
        if j < 0:
            break
        if i >= 0 and units[merged[i]] <= units[shifted[j]]:
            merged[place] = merged[i]
            i -= 1
        else:
            merged[place] = shifted[j]
            j -= 1
    kept = 0
    for place in range(total):
        label = merged[place]
        dominated = False
        while kept and not dominated:
            other = merged[kept - 1]
            # `other` has done at least as much. It stays if it has done more or is better.
            difference = cost[label] - cost[other]
            if abs(difference) > TIE * max(cost[label], cost[other]):
                better = difference < 0.0
            elif num_cells[label] != num_cells[other]:
                better = num_cells[label] < num_cells[other]
            else:
                better = _lists_before(search, window, reach, label, other)
            dominated = not better
            if dominated or units[other] > units[label]:
                break
            kept -= 1
        if not dominated:
            merged[kept] = label
            kept += 1
    return kept


@kernel
def _better_done(search: Search, window: Window, reach: Thresholds, new: int, done: int) -> bool:
    """Return whether the complete label `new` precedes the complete label `done`."""
    labels = search.labels
    cost, incumbent = labels.cost[new], labels.cost[done]
    if abs(cost - incumbent) > TIE * max(cost, incumbent):
        return bool(cost < incumbent)
    num_types = len(search.units)
    finish, best_finish = labels.at[new] // num_types, labels.at[done] // num_types
    if finish != best_finish:
        return bool(finish < best_finish)
    if labels.num_cells[new] != labels.num_cells[done]:
        return bool(labels.num_cells[new] < labels.num_cells[done])
    return _lists_before(search, window, reach, new, done)


@kernel
def _lists_before(search: Search, window: Window, reach: Thresholds, a: int, b: int) -> bool:
    """Whether the list of (slot, node) of `a` comes before that of `b`, of the same length."""
    at_of, parent = search.labels.at, search.labels.parent
    num_types = len(search.units)
    at_a, at_b = -1, -1
    # From the last cells to the first: the last difference met is the first of the lists.
    while a != b:
        if at_of[a] != at_of[b]:
            at_a, at_b = at_of[a], at_of[b]
        a, b = parent[a], parent[b]
    slot_a, slot_b = at_a // num_types, at_b // num_types
    if slot_a != slot_b:
        return bool(slot_a < slot_b)
    t = window.origin + slot_a
    node_a = lowest_node(search.cells, search.rule, search.request, reach, t, at_a % num_types)
    return node_a < lowest_node(
        search.cells, search.rule, search.request, reach, t, at_b % num_types
    )


@kernel
def _write_cells(search: Search, window: Window, label: int) -> int:
    labels, scratch = search.labels, search.scratch
    num_types = len(search.units)
    num_cells = int(labels.num_cells[label])
    for i in range(num_cells - 1, -1, -1):
        scratch.cell_slots[i] = window.origin + labels.at[label] // num_types
        scratch.cell_types[i] = labels.at[label] % num_types
        label = labels.parent[label]
    return num_cells
