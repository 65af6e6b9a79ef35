"""The offline optimum of one job in a known market: exact, and bounded on a grid of work.

It is max Vt(Z_d) - C_d over all allocations (Kong et al., arXiv 2512.20967, eq. 9). On an exact
work grid it is the window program from slot 0 to the deadline with true prices. Where there is
none, Pareto labels of (work, cost) find it, pruned by the same program on a grid that rounds work
up, which bounds from above, and by what the one that rounds down attains.

Slots are paid whole and what is left at the deadline by the fraction. So the optimum may leave a
little work on purpose: it costs less there than in a slot. Policies that keep the deadline cannot,
and their yardstick is the optimum `on_time`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from auctune.numerics.arrays import Floats, Ints
from auctune.spot.account import (
    TOLERANCE,
    JobConstants,
    can_be_held,
    job_constants,
    num_states,
    on_demand_of,
    remaining_work,
    work_of,
)
from auctune.spot.grid import MOST_STEPS, WorkGrid, exact_grid, rounded_grid, steps_in_memory
from auctune.spot.job import SpotJob
from auctune.spot.market import SpotMarket
from auctune.spot.play import settle
from auctune.spot.policy import SpotAllocation, SpotOutcome
from auctune.spot.value import least_utility, terminal_value
from auctune.spot.window.program import WindowScratch, fill_window, follow, make_scratch
from auctune.spot.window.table import fill_costs, split_of, units_done

# Differences of utility below this share of the value are rounding.
SLACK = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class _Front:
    """Labels of one slot and one state, by rising work and cost.

    Attributes:
        work, cost: [i].
        from_state, from_label: [i] the label of the slot before that each comes from.
    """

    work: Floats
    cost: Floats
    from_state: Ints
    from_label: Ints


class Labels:
    """Pareto labels of (work, cost), of one job in one market.

    After each slot, and for each state n held in it, the labels are the attainable pairs of work
    done (at most L) and cost that no other pair of the same n beats in both. More work is never
    worse, since Vt rises with Z. A label falls as soon as its cost and the bound on what can still
    come are below what is known to be attainable. The bound is the value table of a grid that
    rounds work up.
    """

    def __init__(self, terms: JobConstants, market: SpotMarket, bounds: Floats, high: int) -> None:
        """Prepare.

        Args:
            terms: of the job, on a grid that rounds work up.
            market: known, from the job's first slot.
            bounds: [h, n, k] upper bounds on the value of beginning slot 1 + h.
            high: the k that means all work done.
        """
        self._terms = terms
        self._market = market
        self._bounds = bounds
        self._high = high
        self._states = [n for n in range(num_states(terms)) if can_be_held(terms, n)]

    def best_plan(self, attained: float) -> list[SpotAllocation] | None:
        """Return the plan with the most utility.

        Args:
            attained: a utility known to be attainable.

        Returns:
            None if no plan is better than that.
        """
        zero = np.zeros(1)
        none = np.zeros(1, dtype=np.int64)
        fronts = {0: _Front(zero, zero, none, none)}
        history = [fronts]
        for slot in range(self._terms.num_slots):
            fronts = self._extend(fronts, slot, attained)
            history.append(fronts)
        best, state, label = attained, -1, -1
        for n, front in fronts.items():
            on_demand = on_demand_of(self._terms, n)
            worth = [
                terminal_value(self._terms, remaining_work(self._terms, z), on_demand)
                for z in front.work
            ]
            utility = np.array(worth) - front.cost
            i = int(np.argmax(utility))
            if utility[i] > best:
                best, state, label = float(utility[i]), n, i
        return None if state < 0 else self._trace(history, state, label)

    def _extend(self, fronts: dict[int, _Front], slot: int, attained: float) -> dict[int, _Front]:
        terms, market = self._terms, self._market
        costs = np.empty(num_states(terms))
        fill_costs(terms, float(market.price[slot]), int(market.available[slot]), costs)
        extended = {}
        for n in self._states:
            if costs[n] == np.inf:
                continue
            moved = [
                _Front(
                    np.minimum(front.work + self._work(n, last), terms.workload),
                    front.cost + costs[n],
                    np.full(len(front.work), last, dtype=np.int64),
                    np.arange(len(front.work), dtype=np.int64),
                )
                for last, front in fronts.items()
            ]
            front = self._prune(_pareto(_join(moved)), n, slot, attained)
            if len(front.work):
                extended[n] = front
        return extended

    def _work(self, state: int, last: int) -> float:
        return float(work_of(self._terms, state, last)) if state else 0.0

    def _prune(self, front: _Front, state: int, slot: int, attained: float) -> _Front:
        terms = self._terms
        steps = np.ceil((front.work - TOLERANCE * terms.workload) / terms.step).astype(np.int64)
        steps = np.clip(steps + terms.debt, 0, self._high)
        # Tolerated rounding of work counts as done, so the bound is that of one step more.
        bound = self._bounds[slot, state, np.minimum(steps + 1, self._high)] - front.cost
        kept = bound >= attained - SLACK * (terms.value + abs(attained))
        return _Front(
            front.work[kept], front.cost[kept], front.from_state[kept], front.from_label[kept]
        )

    def _trace(
        self, history: list[dict[int, _Front]], state: int, label: int
    ) -> list[SpotAllocation]:
        states = []
        for fronts in reversed(history[1:]):
            states.append(state)
            front = fronts[state]
            state, label = int(front.from_state[label]), int(front.from_label[label])
        return [self._split(n, slot) for slot, n in enumerate(reversed(states))]

    def _split(self, state: int, slot: int) -> SpotAllocation:
        price, available = float(self._market.price[slot]), int(self._market.available[slot])
        on_demand, spot = split_of(self._terms, state, price, available)
        return SpotAllocation(int(on_demand), int(spot))


def _join(fronts: Sequence[_Front]) -> _Front:
    return _Front(
        np.concatenate([front.work for front in fronts]),
        np.concatenate([front.cost for front in fronts]),
        np.concatenate([front.from_state for front in fronts]),
        np.concatenate([front.from_label for front in fronts]),
    )


def _pareto(front: _Front) -> _Front:
    """Return the labels that no other one beats in work and cost; of equals the first."""
    order = np.lexsort((front.cost, -front.work))
    cheapest_with_more = np.minimum.accumulate(np.concatenate(([np.inf], front.cost[order][:-1])))
    kept = order[front.cost[order] < cheapest_with_more][::-1]
    return _Front(
        front.work[kept], front.cost[kept], front.from_state[kept], front.from_label[kept]
    )


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


def offline_optimum(job: SpotJob, market: SpotMarket, *, on_time: bool = False) -> OfflineOptimum:
    """Return the best allocations of a job in a known market, exactly.

    Args:
        job: what to run.
        market: slot 0 is the job's first; at least `job.deadline` slots.
        on_time: the best of those that are done by the deadline, if any are.

    Raises:
        InputError: if the market is too short, or the tables would take too much memory.
    """
    market = market.between(0, job.deadline)
    if on_time:
        plan = _best_plan(_worthless_late(job, market), market)
        outcome = settle(job, market, plan)
        if outcome.ending_cost == 0.0:
            return OfflineOptimum(outcome)
    return OfflineOptimum(settle(job, market, _best_plan(job, market)))


def _best_plan(job: SpotJob, market: SpotMarket) -> Sequence[SpotAllocation]:
    grid = _exact_grid(job)
    if grid is not None:
        return Program(job, market, grid).plan()
    return best_by_labels(job, market).outcome.allocations


def _worthless_late(job: SpotJob, market: SpotMarket) -> SpotJob:
    """Return the job with a value that no cost outweighs, and which is lost right after d."""
    price = float(market.price.max(initial=0.0))
    stake = -least_utility(job, price, market.on_demand_price)
    return replace(job, hard_factor=1.0, value=job.value + stake)


def best_by_labels(job: SpotJob, market: SpotMarket) -> OfflineOptimum:
    """Return the optimum by Pareto labels, whether there is a grid or not.

    Raises:
        InputError: if the market is too short, or the tables would take too much memory.
    """
    market = market.between(0, job.deadline)
    floor = Program(job, market, rounded_grid(job, "down", BOUND_STEPS, job.deadline)).plan()
    incumbent = settle(job, market, floor)
    bound = Program(job, market, rounded_grid(job, "up", BOUND_STEPS, job.deadline))
    labels = Labels(bound.terms, market, bound.values, bound.high)
    best = labels.best_plan(incumbent.utility)
    return OfflineOptimum(incumbent if best is None else settle(job, market, best))


def offline_bound(job: SpotJob, market: SpotMarket) -> float:
    """Return an upper bound on the utility of any policy, on a grid that rounds work up.

    Raises:
        InputError: if the market is too short, or the tables would take too much memory.
    """
    market = market.between(0, job.deadline)
    grid = _exact_grid(job) or rounded_grid(job, "up", BOUND_STEPS, job.deadline)
    return Program(job, market, grid).value()


def _exact_grid(job: SpotJob) -> WorkGrid | None:
    """Return the exact grid if all slots' tables fit: with fewer steps labels take far longer."""
    return exact_grid(job, min(MOST_STEPS, steps_in_memory(job, job.deadline)))


class Program:
    """The window program over the whole job, in a known market of as many slots."""

    def __init__(self, job: SpotJob, market: SpotMarket, grid: WorkGrid) -> None:
        self.terms: JobConstants = job_constants(job, market.on_demand_price, grid)
        self._market = market
        self._scratch: WindowScratch = make_scratch(self.terms, job.deadline)
        self.high = int(
            fill_window(
                self.terms,
                self._scratch,
                market.price,
                market.available,
                0,
                job.deadline,
                units_done(self.terms, 0.0),
            )
        )

    @property
    def values(self) -> Floats:
        """[h, n, k] of slots 1..d."""
        return self._scratch.values

    def value(self) -> float:
        """Return the value of the best plan."""
        return self._follow()[1]

    def plan(self) -> list[SpotAllocation]:
        """Return the best plan."""
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
            units_done(self.terms, 0.0),
            self.high,
            0,
            plan,
        )
        return plan, float(value)
