"""What the kernels of the schedule search read and write.

Shapes: T slots, N nodes, K node types, V vendors, W = T slots of a window at most. `j` is a slot
counted from the window's first one. Slots are rows of the ledger throughout.
"""

from typing import NamedTuple

import numpy as np

from auctune.auction.ledger import Capacity, Usage
from auctune.numerics.arrays import FIT, Floats, Ints
from auctune.numerics.jit import kernel

# Work in whole units: the task's work is this many. Sums of throughputs are then exact, whatever
# their order, and 2^-48 of the work is far below the slack that feasibility allows.
WORK_UNITS = 1 << 48
# Units that finish the work, the slack of feasibility taken off.
UNITS_NEEDED = int(WORK_UNITS * (1 - FIT))

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
    """How schedules are priced, how they are searched, and which cells count."""

    by_max: bool  # a schedule is priced at its dearest cell; else summed by cell
    printed: bool  # by the printed recursion, of `by_max` alone; else exactly
    masked: bool  # only cells with room; else all that could hold the task if empty


class Request(NamedTuple):
    """One task, as arrays."""

    first: int  # row of the slot from which it may run, before a vendor's delay
    last: int  # row of its deadline
    work: float  # samples
    memory_gb: float
    throughput: Floats  # [K] samples per slot, 0 where it cannot run
    operating_cost: Floats  # [K, T] money per slot
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

    weight: Floats  # [W * K] cost of a cell of (j, k), infinite where there is none
    rest: Floats  # [W + 1]
    mu: Floats  # [1] the last dual price, where the next search for one starts
    heap: Floats  # [W] the least weights of one node type
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
    units: Ints  # [K] throughput in WORK_UNITS of the work, at most all of them
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


class Memory(NamedTuple):
    """All that a search writes to, in few arrays: each array passed to a kernel costs time."""

    floats: Floats  # [*]
    ints: Ints  # [*]
    label_cost: Floats  # [L]
    label_ints: Ints  # [7, L]
    best_cells: Ints  # [2, T] slots and nodes of the best schedule


def make_memory(num_slots: int, num_nodes: int, num_types: int, num_labels: int) -> Memory:
    """Room for the searches of a horizon of T slots, N nodes and K types."""
    t, size, cells = num_slots, num_slots * num_nodes, num_slots * num_types
    num_floats = 2 * size + cells + (t + 1) + t + 1 + 2
    num_ints = (cells + 1) + 3 * t + num_types + 3
    return Memory(
        np.zeros(num_floats),
        np.zeros(num_ints, dtype=np.int64),
        np.zeros(num_labels),
        np.zeros((7, num_labels), dtype=np.int64),
        np.zeros((2, num_slots), dtype=np.int64),
    )


@kernel
def lay_out(cells: Cells, rule: Rule, request: Request, memory: Memory, num_slots: int) -> Search:
    """Give every buffer its part of the memory."""
    t, num_types = num_slots, len(request.throughput)
    size, per_type = t * cells.lam.shape[1], t * num_types
    f, i = memory.floats, memory.ints
    lam, f = f[:size], f[size:]
    phi, f = f[:size], f[size:]
    weight, f = f[:per_type], f[per_type:]
    rest, f = f[: t + 1], f[t + 1 :]
    heap, f = f[:t], f[t:]
    mu, cost = f[:1], f[1:]
    # Where the search for a dual price starts must not depend on the task before.
    mu[0] = 0.0
    start, i = i[: per_type + 1], i[per_type + 1 :]
    cell_slots, i = i[:t], i[t:]
    cell_types, i = i[:t], i[t:]
    cell_nodes, i = i[:t], i[t:]
    units, summary = i[:num_types], i[num_types:]
    for k in range(num_types):
        share = min(request.throughput[k] / request.work, 1.0)
        units[k] = np.int64(np.rint(share * WORK_UNITS))
    ints = memory.label_ints
    return Search(
        cells,
        rule,
        request,
        units,
        Entries(start, lam, phi),
        Scratch(weight, rest, mu, heap, cell_slots, cell_types, cell_nodes),
        Labels(ints[0], memory.label_cost, ints[1], ints[2], ints[3], ints[4], ints[5], ints[6]),
        Best(cost, summary, memory.best_cells[0], memory.best_cells[1]),
    )
