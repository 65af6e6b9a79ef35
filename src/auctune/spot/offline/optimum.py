"""The offline optimum of a job: max Vt(Z_d) - C_d over all allocations (Kong et al., eq. 9).

On an exact work grid it is the window program from slot 0 to the deadline with true prices. Where
there is none, Pareto labels of (work, cost) find it (`auctune.spot.offline.labels`), pruned by the
same program on a grid that rounds work up, which bounds from above, and by what the one that rounds
down attains.
"""

from dataclasses import dataclass

import numpy as np

from auctune.spot.allocation import SpotAllocation
from auctune.spot.arrays import Floats, Ints
from auctune.spot.grid import WorkGrid, exact_grid, rounded_grid
from auctune.spot.job import SpotJob
from auctune.spot.market import SpotMarket
from auctune.spot.offline.labels import Labels
from auctune.spot.outcome import SpotOutcome
from auctune.spot.play import settle
from auctune.spot.terms import Terms, make_terms
from auctune.spot.window.program import WindowScratch, fill_window, follow, make_scratch

# Of a bound: finer than that of plans, since it is made once a job and prunes labels.
BOUND_STEPS = 4_000


@dataclass(frozen=True, slots=True)
class OfflineOptimum:
    """The yardstick of a job.

    Attributes:
        outcome: of the best allocations.
    """

    outcome: SpotOutcome

    @property
    def utility(self) -> float:
        """V(T) - C, the most that any policy can reach."""
        return self.outcome.utility


def offline_optimum(job: SpotJob, market: SpotMarket) -> OfflineOptimum:
    """The best allocations of a job in a known market, exactly.

    Args:
        job: what to run.
        market: slot 0 is the job's first; at least `job.deadline` slots.

    Raises:
        InputError: if the market is too short, or the tables would take too much memory.
    """
    market = market.between(0, job.deadline)
    grid = exact_grid(job)
    if grid is not None:
        return OfflineOptimum(settle(job, market, Program(job, market, grid).plan()))
    return best_by_labels(job, market)


def best_by_labels(job: SpotJob, market: SpotMarket) -> OfflineOptimum:
    """The optimum by Pareto labels, whether there is a grid or not.

    Raises:
        InputError: if the market is too short, or the tables would take too much memory.
    """
    market = market.between(0, job.deadline)
    floor = Program(job, market, rounded_grid(job, "down", BOUND_STEPS)).plan()
    incumbent = settle(job, market, floor)
    bound = Program(job, market, rounded_grid(job, "up", BOUND_STEPS))
    labels = Labels(bound.terms, market, bound.values, bound.high)
    best = labels.best_plan(incumbent.utility)
    return OfflineOptimum(incumbent if best is None else settle(job, market, best))


def offline_bound(job: SpotJob, market: SpotMarket) -> float:
    """An upper bound on the utility of any policy, on a grid that rounds work up.

    Raises:
        InputError: if the market is too short, or the tables would take too much memory.
    """
    market = market.between(0, job.deadline)
    grid = exact_grid(job) or rounded_grid(job, "up", BOUND_STEPS)
    return Program(job, market, grid).value()


class Program:
    """The window program over the whole job, in a known market of as many slots."""

    def __init__(self, job: SpotJob, market: SpotMarket, grid: WorkGrid) -> None:
        """Fill the tables."""
        self.terms: Terms = make_terms(job, market.on_demand_price, grid)
        self._market = market
        self._scratch: WindowScratch = make_scratch(self.terms, job.deadline)
        self.high = int(
            fill_window(
                self.terms, self._scratch, market.price, market.available, 0, job.deadline, 0
            )
        )

    @property
    def values(self) -> Floats:
        """[h, n, k] of slots 1..d."""
        return self._scratch.values

    def value(self) -> float:
        """Of the best plan."""
        return self._follow()[1]

    def plan(self) -> list[SpotAllocation]:
        """The best plan."""
        return [SpotAllocation(int(row[0]), int(row[1])) for row in self._follow()[0]]

    def _follow(self) -> tuple[Ints, float]:
        num_slots = self.terms.num_slots
        plan = np.zeros((num_slots, 2), dtype=np.int64)
        value = follow(
            self.terms,
            self._scratch,
            self._market.price,
            self._market.available,
            num_slots,
            0,
            self.high,
            0,
            plan,
        )
        return plan, float(value)
