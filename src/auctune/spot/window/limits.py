"""Limits on the risk of being late and on cost, as prices in the program of an uncertain window.

    P(work is left at d) <= risk,    E[cost, ending included] <= budget

become multipliers, lambda for being late and nu on cost, by Lagrangian duality. The expected value
J falls convexly in each, and the slope from one multiplier x to the next y bounds the constraint's
left side from above: P(late at y) <= (J(x) - J(y)) / (y - x), and so for the cost. The first y of
a ladder whose bound is within the limit is taken, or the last: nu with lambda = 0, then lambda,
then nu again. Lambda is chosen by the slope in the worst market which the past leaves likely, the
corner with the least spot of a box of hazards (after Iyengar, "Robust Dynamic Programming", 2005;
Nilim and El Ghaoui, 2005): with a mean taken for the truth the risk would be the forecast's own.
That is a heuristic, as the plan itself is best for the mean and not in that market. Where no nu
keeps the cap beside that lambda, lambda is 0: the cap comes first.

Lambda never falls while a job runs: a risk that was taken once is not taken again.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from auctune.spot.account import JobConstants
from auctune.spot.grid import UNCHANGED
from auctune.spot.value import termination_cost
from auctune.spot.window.expectation import (
    ExpectationScratch,
    Multipliers,
    Scenarios,
    choose,
    fill_expected,
    make_expectation_scratch,
)
from auctune.spot.window.table import lowest_column, split_of

# Shares of what is at stake: the job's value and the cost of running it all after the deadline.
LATE_MULTIPLIERS = (0.0, 0.001, 0.1, 0.5, 2.0, 10.0)
COST_MULTIPLIERS = (0.0, 0.001, 0.25, 1.0, 4.0, 20.0)
# Of no risk at all: what is unlikely counts too.
CERTAIN = 1000.0


class Limits(NamedTuple):
    """What must be kept.

    Attributes:
        risk: the most that the probability of missing the deadline may be; 1: no limit.
        budget: the most that may be paid from now on, by expectation; infinite: no limit.
    """

    risk: float
    budget: float


class LimitedProgram:
    """The program of one job within limits: solved for one slot, used in those after it."""

    def __init__(self, terms: JobConstants) -> None:
        self._terms = terms
        self._stake = terms.value + termination_cost(terms, terms.workload)
        self._scratch: ExpectationScratch | None = None
        self._solved: Multipliers | None = None
        self._least_late = 0.0
        self._done, self._last = 0, 0

    def covers(self, ahead: int, done: int) -> bool:
        """Return whether the newest solution is known in a slot with so much work done.

        It is filled as far as the grid's own steps reach: work of a grid that rounds down, or of a
        run that is quicker than its job says, may be beyond.

        Args:
            ahead: slots since the one that was solved for.
            done: work, in steps of the grid.
        """
        terms, scratch = self._terms, self._scratch
        if scratch is None or ahead >= len(scratch.ahead) - 1:
            return False
        return done <= self._done + ahead * int(terms.units[UNCHANGED, terms.n_max])

    @property
    def keeps_deadline(self) -> bool:
        """Return whether the newest solution takes no risk of being late."""
        return self._solved is not None and self._solved.late == CERTAIN * self._stake

    def solve(
        self, scenarios: Scenarios, limits: Limits, done: int, last: int, most_kept: int = 1
    ) -> None:
        """Solve from the slot that is seen on.

        Args:
            scenarios: of the slots t..d-1.
            limits: to be kept.
            done: work, in steps of the grid.
            last: state of the slot before.
            most_kept: slots in which the scenarios stay as they are.

        Raises:
            InputError: if the tables would take too much memory.
        """
        (num_rows, num), scratch = scenarios.transition.shape, self._scratch
        if scratch is None or (scratch.ahead.shape[1], len(scratch.value)) != (num_rows, num):
            self._scratch = make_expectation_scratch(self._terms, num_rows, num, most_kept)
        self._done, self._last = done, last
        worst = scenarios._replace(transition=scenarios.worst)
        has_worst = scenarios.worst is not scenarios.transition
        values: dict[tuple[Multipliers, bool], float] = {}
        newest: tuple[Multipliers, bool] | None = None

        def value(pair: Multipliers, *, in_worst: bool = False) -> float:
            nonlocal newest
            key = (pair, in_worst and has_worst)
            if key not in values:
                values[key], newest = self._value(pair, worst if key[1] else scenarios), key
            return values[key]

        best = multipliers_within(
            limits, self._stake, value, self._least_late, partial(value, in_worst=True)
        )
        if newest != (best, False):
            self._value(best, scenarios)
        self._least_late = max(self._least_late, best.late)

    def choose(
        self, ahead: int, row: int, price: float, available: int, done: int, last: int
    ) -> tuple[int, int]:
        """Return the (on-demand, spot) GPUs of a slot.

        Args:
            ahead: slots since the one that was solved for.
            row: of the transitions, for the scenario that the slot has.
            price, available: of the slot.
            done: work, in steps of the grid.
            last: state of the slot before.
        """
        state, _ = self._best(ahead, row, price, available, done, last)
        on_demand, spot = split_of(self._terms, state, price, available)
        return int(on_demand), int(spot)

    def _best(
        self, ahead: int, row: int, price: float, available: int, done: int, last: int
    ) -> tuple[int, float]:
        assert self._scratch is not None
        assert self._solved is not None
        lowest = lowest_column(self._terms, self._done)
        table = self._scratch.ahead[ahead, row]
        return choose(
            self._terms, self._scratch, self._solved, table, price, available, done, lowest, last
        )

    def _value(self, pair: Multipliers, scenarios: Scenarios) -> float:
        assert self._scratch is not None
        fill_expected(self._terms, self._scratch, scenarios, pair, self._done)
        self._solved = pair
        price, available = float(scenarios.price[0, 0]), int(scenarios.available[0, 0])
        return self._best(0, scenarios.present, price, available, self._done, self._last)[1]


def multipliers_within(
    limits: Limits,
    stake: float,
    value: Callable[[Multipliers], float],
    least_late: float = 0.0,
    worst_value: Callable[[Multipliers], float] | None = None,
) -> Multipliers:
    """Return lambda and nu that keep both limits, or the cost's where both cannot be kept.

    Args:
        limits: to be kept.
        stake: that the ladder of lambda has shares of.
        value: J.
        least_late: the least lambda, unless the cap on cost forbids it.
        worst_value: J in the worst market, for the risk; by default as `value`.
    """
    in_worst = value if worst_value is None else worst_value

    def dear_beside(late: float) -> float | None:
        if limits.budget == np.inf:
            return 0.0
        return _first(COST_MULTIPLIERS, limits.budget, lambda dear: value(Multipliers(late, dear)))

    alone = dear_beside(0.0)
    if alone is None:
        return Multipliers(0.0, COST_MULTIPLIERS[-1])
    if limits.risk == 1.0:
        return Multipliers(0.0, alone)
    late: float | None = CERTAIN * stake
    if limits.risk > 0.0:
        dear, steps = alone, [share * stake for share in LATE_MULTIPLIERS]
        late = _first(
            steps, limits.risk, lambda late: in_worst(Multipliers(late, dear)), least_late
        )
        late = steps[-1] if late is None else late
    assert late is not None
    both = dear_beside(late)
    return Multipliers(0.0, alone) if both is None else Multipliers(late, both)


def _first(
    ladder: Sequence[float], limit: float, value: Callable[[float], float], least: float = 0.0
) -> float | None:
    """Return the first step from `least` on at which a limit is known to be kept."""
    for lower, upper in pairwise(ladder):
        if upper >= least and (value(lower) - value(upper)) / (upper - lower) <= limit:
            return upper
    return None
