"""What the kernels of the schedule search read and write.

Shapes: T slots, N nodes, K node types, V vendors, W = T slots of a window at most. `j` is a slot
counted from the window's first one.
"""

from typing import NamedTuple

import numpy as np

from auctune.auction.book import Capacity, Floats, Ints, Usage

# Work in whole units: the task's work is this many. Sums of throughputs are then exact, whatever
# their order, and 2^-48 of the work is far below the slack that feasibility allows.
WORK_UNITS = 1 << 48

SUM, MAX = 0, 1
# Bounds cut with more slack than ties have, so that no tie is cut.
SLACK = 1e-10
FOUND, NOT_FOUND, NEED_MORE_LABELS = 0, 1, 2


class Cells(NamedTuple):
    """The market's cells: what they hold, what is sold of them, and their prices."""

    capacity: Capacity
    usage: Usage
    lam: Floats  # [T, N] money per sample
    phi: Floats  # [T, N] money per GB-slot


class Rule(NamedTuple):
    """How schedules are priced and which cells count."""

    aggregate: int  # SUM or MAX
    masked: bool  # only cells with room; else all that could hold the task if empty


class Request(NamedTuple):
    """One task, as arrays."""

    first: int  # slot from which it may run, before a vendor's delay
    last: int  # its deadline
    work: float  # samples
    memory_gb: float
    throughput: Floats  # [K] samples per slot, 0 where it cannot run
    units: Ints  # [K] throughput in WORK_UNITS of the work, at most all of them
    units_needed: int  # units that finish the work, feasibility's slack taken off
    operating_cost: Floats  # [K, T] money per slot
    slots_by_cost: Ints  # [K, T] slots by rising operating cost, the earlier of equals first
    quote_price: Floats  # [V] money; one of 0 where no vendor is needed
    quote_delay: Ints  # [V] slots


class Entries(NamedTuple):
    """Undominated (lam, phi) among the cells with room, by slot and type; the search's choices."""

    start: Ints  # [W * K + 1] where the entries of (j, k) = j * K + k start
    lam: Floats  # [W * N] rising within (j, k)
    phi: Floats  # [W * N] falling within (j, k)


class Best(NamedTuple):
    """The best schedule so far, in the total order of the mechanism."""

    cost: Floats  # [2] c, infinite while there is none; and its operating cost
    summary: Ints  # [3] finish, number of cells, quote index
    slots: Ints  # [T]
    nodes: Ints  # [T]


class Scratch(NamedTuple):
    """Buffers that a search fills and leaves."""

    entry_order: Ints  # [W * N]
    entry_at: Ints  # [W * N] j * K + k of an entry
    levels: Floats  # [W * N]
    phi_now: Floats  # [W * K] least phi under the current lam threshold
    weight: Floats  # [W * K] cost of a cell under thresholds, infinite where there is none
    rest: Floats  # [W + 1]
    mu: Floats  # [1] the last dual price, where the next search for one starts
    by_cost: Ints  # [K, W] slots of the window with cells, by rising operating cost
    num_by_cost: Ints  # [K]
    prefix: Floats  # [K, W + 1] sums of the least operating costs
    counts: Ints  # [2, K] cells of each type: in the best schedule by counts, and in reach
    heap_key: Floats  # [W]
    heap_slot: Ints  # [W]
    chosen_type: Ints  # [W] -1: no cell in this slot
    cell_slots: Ints  # [T]
    cell_types: Ints  # [T]
    cell_nodes: Ints  # [T]


class Labels(NamedTuple):
    """Partial schedules of the search over several node types: a pool, and lists into it."""

    units: Ints  # [L]
    cost: Floats  # [L]
    num_cells: Ints  # [L]
    parent: Ints  # [L]
    at: Ints  # [L] j * K + k of the last cell
    current: Ints  # [L] by falling units
    shifted: Ints  # [L]
    merged: Ints  # [L]


class Search(NamedTuple):
    """All that the search of one task reads and writes."""

    cells: Cells
    rule: Rule
    request: Request
    entries: Entries
    scratch: Scratch
    labels: Labels
    best: Best


class Window(NamedTuple):
    """The slots that one vendor leaves: j in [first, last), counted from slot `origin`."""

    origin: int
    first: int
    last: int
    quote: int


class Thresholds(NamedTuple):
    """Cells dearer than these are out of reach; infinite where the aggregate is `sum`."""

    lam: float
    phi: float


def make_entries(num_slots: int, num_nodes: int, num_types: int) -> Entries:
    """Room for all entries of a horizon."""
    size = num_slots * num_nodes
    return Entries(
        np.zeros(num_slots * num_types + 1, dtype=np.int64), np.zeros(size), np.zeros(size)
    )


def make_best(num_slots: int) -> Best:
    """No schedule yet."""
    return Best(
        np.full(2, np.inf),
        np.zeros(3, dtype=np.int64),
        np.zeros(num_slots, dtype=np.int64),
        np.zeros(num_slots, dtype=np.int64),
    )


def make_scratch(num_slots: int, num_nodes: int, num_types: int) -> Scratch:
    """Buffers for a horizon."""
    size = num_slots * num_nodes
    cells = num_slots * num_types
    return Scratch(
        entry_order=np.zeros(size, dtype=np.int64),
        entry_at=np.zeros(size, dtype=np.int64),
        levels=np.zeros(size),
        phi_now=np.zeros(cells),
        weight=np.zeros(cells),
        rest=np.zeros(num_slots + 1),
        mu=np.zeros(1),
        by_cost=np.zeros((num_types, num_slots), dtype=np.int64),
        num_by_cost=np.zeros(num_types, dtype=np.int64),
        prefix=np.zeros((num_types, num_slots + 1)),
        counts=np.zeros((2, num_types), dtype=np.int64),
        heap_key=np.zeros(num_slots),
        heap_slot=np.zeros(num_slots, dtype=np.int64),
        chosen_type=np.zeros(num_slots, dtype=np.int64),
        cell_slots=np.zeros(num_slots, dtype=np.int64),
        cell_types=np.zeros(num_slots, dtype=np.int64),
        cell_nodes=np.zeros(num_slots, dtype=np.int64),
    )


def make_labels(size: int) -> Labels:
    """A pool of `size` labels."""
    ints = [np.zeros(size, dtype=np.int64) for _ in range(7)]
    return Labels(ints[0], np.zeros(size), *ints[1:])
