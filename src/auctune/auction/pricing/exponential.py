"""Exponential prices: L * (U / L) ** (used / capacity), for compute and memory each.

An empty cell costs L, a full one U, money per sample and per GB-slot. With L = U = 0, as long as
nothing is known, cells cost nothing beyond their operation.

L and U are settings, or follow quantiles of the densities of the latest bids: money per sample of
work, and per GB-slot that the bid would hold on its quickest type. They are updated at the start
of a slot from bids of earlier slots only, so no bid moves its own price.
"""

import math
from collections import deque
from collections.abc import Sequence

import numpy as np

from auctune.auction.horizon import Shift
from auctune.auction.ledger import Capacity, CapacityLedger, Usage
from auctune.auction.pricing.base import PriceUpdate, Pricing
from auctune.domain import Saved, Task
from auctune.numerics.arrays import Floats, Ints
from auctune.numerics.jit import kernel

Range = tuple[float, float]

# Long enough for quantiles to be steady, short enough to follow a changing demand.
_MEMORY = 2000
_LOW, _HIGH = 0.01, 0.95
# Both resources are priced, and a task needs both: each carries half of its value.
_SHARE = 0.5


class ExponentialPricing(Pricing):
    """Prices that follow the use of each cell.

    Args:
        ledger: the cells.
        compute, memory: (L, U) for each; None: as bids of earlier slots reveal.
    """

    def __init__(self, ledger: CapacityLedger, compute: Range | None, memory: Range | None) -> None:
        super().__init__(ledger)
        self._fixed = (compute, memory)
        self._revealed = RevealedRange()
        self._price_between(0, ledger.horizon.rows.stop)

    def update(self, now: int) -> PriceUpdate | None:
        if None not in self._fixed or not self._revealed.is_new:
            return None
        compute, memory = self._revealed.estimate()
        update = {"compute": np.array(compute), "memory": np.array(memory)}
        self.apply_update(now, update)
        return update

    def apply_update(self, now: int, update: PriceUpdate) -> None:
        self._revealed.set_ranges(_as_range(update["compute"]), _as_range(update["memory"]))
        horizon = self._ledger.horizon
        self._price_between(now - horizon.origin, horizon.rows.stop)

    def on_window_shift(self, shift: Shift) -> None:
        super().on_window_shift(shift)
        self._price_between(shift.first, shift.last)

    def on_bid(self, task: Task) -> None:
        if None in self._fixed:
            self._revealed.add(task)

    def on_allocation(self, rows: Ints, nodes: Ints) -> None:
        capacity, usage = self._ledger.capacity, self._ledger.usage
        compute, memory = self._ranges()
        price_cells(
            capacity.compute,
            capacity.memory,
            capacity.type_of,
            usage.compute,
            usage.memory,
            rows,
            nodes,
            *compute,
            *memory,
            self.lam,
            self.phi,
        )

    def save(self) -> Saved:
        return {**super().save(), "revealed": self._revealed.save()}

    def load(self, saved: Saved) -> None:
        super().load(saved)
        self._revealed.load(saved["revealed"])

    def _ranges(self) -> tuple[Range, Range]:
        compute, memory = self._fixed
        return compute or self._revealed.compute, memory or self._revealed.memory

    def _price_between(self, first: int, last: int) -> None:
        """Price all cells of the rows [first, last)."""
        ledger = self._ledger
        _price_rows(ledger.capacity, ledger.usage, first, last, *self._ranges(), self.lam, self.phi)


class RevealedRange:
    """Prices (low, high) for compute and memory that follow bids as they come; 0 at first.

    Attributes:
        compute, memory: the prices.
        is_new: whether bids were added since the prices were set.
    """

    def __init__(self) -> None:
        self.compute = (0.0, 0.0)
        self.memory = (0.0, 0.0)
        self._compute: deque[float] = deque(maxlen=_MEMORY)
        self._memory: deque[float] = deque(maxlen=_MEMORY)
        self.is_new = False

    def estimate(self) -> tuple[Range, Range]:
        """Return the ranges for compute and memory by the bids so far, without setting them."""
        return _quantiles(self._compute), _quantiles(self._memory)

    def set_ranges(self, compute: Range, memory: Range) -> None:
        """Set the ranges by the bids so far."""
        self.compute, self.memory = compute, memory
        self.is_new = False

    def add(self, task: Task) -> None:
        """Add a bid; one of 0 reveals no value."""
        bid = float(task.bid)
        if bid <= 0:
            return
        self.is_new = True
        self._compute.append(bid / task.work)
        if task.memory_gb > 0:
            num_cells = math.ceil(task.work / max(task.throughput.values()))
            self._memory.append(bid / (num_cells * task.memory_gb))

    def save(self) -> Saved:
        return {
            "compute": list(self.compute),
            "memory": list(self.memory),
            "compute_densities": np.array(self._compute),
            "memory_densities": np.array(self._memory),
            "is_new": self.is_new,
        }

    def load(self, saved: Saved) -> None:
        self.compute = _as_range(saved["compute"])
        self.memory = _as_range(saved["memory"])
        self._compute = deque(saved["compute_densities"].tolist(), maxlen=_MEMORY)
        self._memory = deque(saved["memory_densities"].tolist(), maxlen=_MEMORY)
        self.is_new = bool(saved["is_new"])


def _as_range(numbers: Sequence[float] | Floats) -> Range:
    low, high = (float(number) for number in numbers)
    return low, high


def _quantiles(densities: deque[float]) -> Range:
    if not densities:
        return 0.0, 0.0
    low, high = np.quantile(np.array(densities), (_LOW, _HIGH))
    return _SHARE * float(low), _SHARE * float(high)


@kernel
def price_cells(
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
    """Set the prices of cells whose use has changed.

    Args:
        compute, memory: capacities by type [K].
        type_of: type of each node [N].
        used_compute, used_memory: [T, N].
        slots, nodes: of the cells, [n] each.
        compute_low, compute_high, memory_low, memory_high: prices at no use and at full use.
        lam, phi: prices of compute and memory [T, N]; those of the cells are replaced.
    """
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
