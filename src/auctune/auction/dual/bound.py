"""An upper bound on welfare: descents on the Lagrangian dual, then cutting planes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.sparse import csr_array

from auctune.auction.dual.columns import TaskColumns, to_columns, whole_supply
from auctune.auction.dual.dual import DescentParams, Dual, DualPrices, descend, initial_prices
from auctune.domain import Cluster, Task
from auctune.numerics.arrays import Floats, Ints
from auctune.numerics.highs import INFINITY, Program, SolveOptions, Status, solve

# The minimum of the Lagrangian dual by cutting planes: where a descent stops at an edge.
#
# What task i chose at some prices is a plan j, worth b_ij without prices and taking samples s_j and
# GB r_j: at any prices v_i >= b_ij - lam . s_j - phi . r_j. The linear program
#  minimize  sum_i w_i u_i + lam . compute + phi . memory
#  subject to  u_i + lam . s_j + phi . r_j >= b_ij for each plan known,  u, lam, phi >= 0
# is nowhere above the dual, so that its optimum is a lower bound of the dual's minimum; new plans
# are asked for between its prices and the best prices known, since its own jump about while plans
# are few (smoothing by Wentges, "Weighted Dantzig-Wolfe decomposition", 1997).


@dataclass(frozen=True, slots=True)
class CuttingParams:
    """How far to go.

    Attributes:
        max_rounds: programs at most; 0: none.
        max_cells: (task, slot, node type) of the largest market for which it is affordable.
        gap: share of the value below which the distance of both bounds is small enough, > 0.
        step: how far towards the program's prices plans are asked for, in (0, 1].
    """

    max_rounds: int = 100
    max_cells: int = 500_000
    gap: float = 1e-5
    step: float = 0.5

    def __post_init__(self) -> None:
        if self.max_rounds < 0:
            raise ValueError(f"max_rounds is {self.max_rounds!r}; expected a whole number >= 0")
        if self.max_cells < 0:
            raise ValueError(f"max_cells is {self.max_cells!r}; expected a whole number >= 0")
        if not 0 < self.gap < math.inf:
            raise ValueError(f"gap is {self.gap!r}; expected a number > 0")
        if not 0 < self.step <= 1:
            raise ValueError(f"step is {self.step!r}; expected a number in (0, 1]")


def minimize_by_cuts(
    dual: Dual, best: DualPrices, params: CuttingParams
) -> tuple[DualPrices, float]:
    """Prices at the dual's minimum or near it, from prices near it.

    Returns:
        The prices, and a lower bound of the dual's minimum, but for the solver's tolerance.
    """
    master = _Master(dual)
    shape = dual.supply.compute.shape
    usual = np.full(shape, dual.units.per_sample)
    for lam, phi in ((best.lam, best.phi), (usual, np.zeros(shape)), (usual * 0.0, usual * 0.0)):
        master.ask(lam, phi)
    lower, step = 0.0, params.step
    for _ in range(params.max_rounds):
        found = master.solve()
        if found is None:
            break
        lower = max(lower, found.value)
        if best.value - lower <= params.gap * best.value:
            break
        lam = best.lam + step * (found.lam - best.lam)
        phi = best.phi + step * (found.phi - best.phi)
        value, num_new = master.ask(lam, phi)
        if value < best.value:
            best = DualPrices(value, lam, phi)
        if num_new == 0 and step == 1.0:
            break
        # Where nothing new is wanted half-way, the program's own prices may be the best.
        step = params.step if num_new > 0 else 1.0
    return best, min(lower, best.value)


class _Master:
    """The linear program in usual units: a column for each price and task, a row for each plan."""

    def __init__(self, dual: Dual) -> None:
        self._dual, units = dual, dual.units
        self._alone = [
            Dual(dual.supply, _only(dual.columns, i), np.ones(1), dual.answers)
            for i in range(dual.columns.num_tasks)
        ]
        size = dual.supply.compute.size
        self._unit = np.repeat([units.per_sample, units.per_gb], size)
        self._money = units.all_bids / max(1.0, float(dual.weights.sum()))
        supply = np.concatenate((dual.supply.compute.ravel(), dual.supply.memory.ravel()))
        self._cost = np.concatenate((supply * self._unit / self._money, dual.weights))
        self._known: set[tuple[int, bytes]] = set()
        self._worth: list[float] = []
        self._entries: list[Floats] = []
        self._places: list[Ints] = []

    def ask(self, lam: Floats, phi: Floats) -> tuple[float, int]:
        """D at these prices, and how many plans were not known."""
        prices = np.concatenate((lam.ravel(), phi.ravel()))
        supply = self._dual.supply
        value = float((lam * supply.compute + phi * supply.memory).sum())
        num_new = 0
        for i, alone in enumerate(self._alone):
            answer = alone.respond(lam, phi)
            bid, spent = float(alone.columns.bid[0]), float(answer.spent[0])
            value += float(self._dual.weights[i]) * (bid - spent)
            if spent < bid:
                taken = np.concatenate((answer.samples.ravel(), answer.gigabytes.ravel()))
                num_new += self._add(i, taken, bid - (spent - float(prices @ taken)))
        return value, num_new

    def _add(self, i: int, taken: Floats, worth: float) -> bool:
        places = np.flatnonzero(taken)
        key = (i, places.tobytes() + taken[places].tobytes())
        if key in self._known:
            return False
        self._known.add(key)
        self._worth.append(worth / self._money)
        entries = taken[places] * self._unit[places] / self._money
        self._entries.append(np.append(entries, 1.0))
        self._places.append(np.append(places, len(taken) + i))
        return True

    def solve(self) -> DualPrices | None:
        """Its optimum, a value that the dual is nowhere below; None if the solver gives up."""
        ends = np.cumsum([0, *(len(places) for places in self._places)])
        no_places, no_entries = np.zeros(0, dtype=np.int64), np.zeros(0)
        by_row = csr_array(
            (
                np.concatenate((no_entries, *self._entries)),
                np.concatenate((no_places, *self._places)),
                ends,
            ),
            shape=(len(self._worth), len(self._cost)),
        )
        matrix, unbounded = by_row.tocsc(), np.full(len(self._cost), INFINITY)
        program = Program(
            self._cost, np.zeros(len(self._cost)), unbounded,
            np.array(self._worth), np.full(len(self._worth), INFINITY),
            matrix.indptr.astype(np.int32), matrix.indices.astype(np.int32), matrix.data,
        )  # fmt: skip
        try:
            found = solve(program, SolveOptions(tolerance=1e-9))
        except RuntimeError:
            # Numerical trouble costs a better bound and not the one that there is.
            return None
        if found.status is not Status.OPTIMAL or found.primal is None or found.objective is None:
            return None
        prices = np.maximum(0.0, found.primal[: len(self._unit)]) * self._unit
        lam, phi = prices.reshape(2, *self._dual.supply.compute.shape)
        return DualPrices(found.objective * self._money, lam, phi)


def _only(columns: TaskColumns, i: int) -> TaskColumns:
    """One task's columns."""
    first, end = columns.first_quote[i : i + 2]
    row = slice(i, i + 1)
    return columns._replace(
        arrival=columns.arrival[row],
        deadline=columns.deadline[row],
        work=columns.work[row],
        memory_gb=columns.memory_gb[row],
        bid=columns.bid[row],
        throughput=columns.throughput[row],
        first_quote=np.array([0, end - first]),
        quote_price=columns.quote_price[first:end],
        quote_delay=columns.quote_delay[first:end],
        own_cost=columns.own_cost[row],
    )


# An upper bound on the welfare of any decisions, all bids known, for instances of any size.
#
# The Lagrangian dual near its minimum; each task's best answer is over whole cells and one vendor,
# which makes the bound tighter than the linear relaxation of the program (4) of Zheng et al., ICPP
# 2024. It knows node types, not nodes: that tasks must be packed into single nodes is relaxed.
#
# Any prices give a true bound, in exact arithmetic. In floats the value at the prices found is
# taken with all bids a little higher: costs are sums of at most 2 T + 2 terms >= 0, nothing ever
# taken off, so that with T slots they are at most (2 T + 8) * 2^-53 of themselves too high, and
# whatever their size no surplus is too low by more than that share of its task's bid; the sum over
# tasks of surpluses >= 0 loses less than a share of I * 2^-53. `_ROUNDING` covers both up to a
# million of slots and of tasks.

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class BoundParams:
    """How hard to try.

    Attributes:
        descent: of each descent.
        relaxed: of the one before them, with relaxed answers, which begins far off at little cost.
        max_responses: how often all tasks are asked, after which no descent is begun; >= 1. On a
            large market this is what takes time.
        gain: share of the value that a descent must gain for another one to follow, >= 0.
        cutting: what follows on markets that are small enough.
    """

    descent: DescentParams = field(default_factory=DescentParams)
    relaxed: DescentParams = field(default_factory=lambda: DescentParams(max_steps=100))
    max_responses: int = 800
    gain: float = 1e-6
    cutting: CuttingParams = field(default_factory=CuttingParams)

    def __post_init__(self) -> None:
        if self.max_responses < 1:
            raise ValueError(f"max_responses is {self.max_responses!r}; expected a number >= 1")
        if not 0 <= self.gain < math.inf:
            raise ValueError(f"gain is {self.gain!r}; expected a number >= 0")


@dataclass(frozen=True, slots=True)
class DualBound:
    """A certificate: at these prices no decisions can be worth more than `value`.

    Attributes:
        value: money.
        lam: [T, K] shadow prices, money per sample.
        phi: [T, K] money per GB-slot.
        gap: by how much less, at most, the dual is worth at any other prices, money; None if that
            is not known. It says nothing of the distance from the best decisions.
    """

    value: float
    lam: Floats
    phi: Floats
    gap: float | None = None


def lagrangian_bound(
    cluster: Cluster, tasks: Sequence[Task], params: BoundParams | None = None
) -> DualBound:
    """Return a true upper bound on the welfare of any feasible decisions on `tasks`."""
    params = params or BoundParams()
    columns = to_columns(tasks, cluster)
    dual = Dual(whole_supply(cluster), columns, np.ones(len(tasks)))
    best = _descents(dual, params)
    lower = None
    if columns.throughput.size * cluster.slots <= params.cutting.max_cells:
        best, lower = minimize_by_cuts(dual, best, params.cutting)
    value = _certified(dual, best)
    gap = None if lower is None else max(0.0, value - lower)
    return DualBound(value, best.lam, best.phi, gap)


def _descents(dual: Dual, params: BoundParams) -> DualPrices:
    """Return the best prices of some descents, each from where the last one ended.

    What a descent has learned of the curvature is of no use across an edge; without it the next
    one goes on.
    """
    first = descend(dual.relaxed(), initial_prices(dual), params.relaxed)
    best = DualPrices(math.inf, first.lam, first.phi)
    while (left := params.max_responses - dual.num_responses) > 0:
        steps = min(params.descent.max_steps, left)
        found = descend(dual, best, replace(params.descent, max_steps=steps))
        gain = best.value - found.value
        if gain > 0:
            best = found
        if gain <= params.gain * best.value:
            break
    return best


def _certified(dual: Dual, prices: DualPrices) -> float:
    """D at these prices, and no less for any rounding."""
    raised = dual.with_bids(dual.columns.bid * (1 + _ROUNDING))
    return raised.value(raised.respond(prices.lam, prices.phi)) * (1 + _ROUNDING)
