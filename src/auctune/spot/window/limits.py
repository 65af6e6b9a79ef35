"""Limits on the risk of being late and on cost, as prices in the program of an uncertain window.

    P(work is left at d) <= risk,    E[cost, ending included] <= left

become multipliers, lambda for being late and nu on cost, by Lagrangian duality. The expected value
J falls convexly in each, and the slope from one multiplier x to the next y bounds the constraint's
left side from above: P(late at y) <= (J(x) - J(y)) / (y - x), and so for the cost. The first y of
a ladder whose bound is within the limit is taken, or the last: nu with lambda = 0, then lambda,
then nu again. Where no nu keeps the cap beside that lambda, lambda is 0: the cap comes first.
"""

from typing import NamedTuple

import numpy as np

from auctune.numerics.arrays import Floats, Ints
from auctune.numerics.jit import kernel
from auctune.spot.terms import JobConstants, termination_cost
from auctune.spot.window.expectation import (
    ExpectationScratch,
    Multipliers,
    Scenarios,
    choose_now,
    fill_expected,
    make_expectation_scratch,
)

# Shares of what is at stake: the job's value and the cost of running it all after the deadline.
LATE_MULTIPLIERS = np.array([0.0, 0.001, 0.1, 0.5, 2.0, 10.0])
COST_MULTIPLIERS = np.array([0.0, 0.001, 0.25, 1.0, 4.0, 20.0])

# No step of a ladder is known to keep the limit.
NONE = -1.0


class Limits(NamedTuple):
    """What must be kept.

    Attributes:
        risk: the most that the probability of missing the deadline may be; 1: no limit.
        left: the most that may be paid from now on, by expectation; infinite: no limit.
    """

    risk: float
    left: float


class LimitsScratch(NamedTuple):
    """Work buffers, and what is known of one state: a program is solved once for each multiplier.

    Attributes:
        program: buffers of the program.
        size: [1] how many pairs of multipliers are known.
        late, dear: [i] the pair.
        chosen: [i] the best state beside it.
        value: [i] J.
    """

    program: ExpectationScratch
    size: Ints
    late: Floats
    dear: Floats
    chosen: Ints
    value: Floats


def make_limits_scratch(terms: JobConstants, num_scenarios: int) -> LimitsScratch:
    """Buffers for one job."""
    # A ladder of lambda, and two of nu.
    most = len(LATE_MULTIPLIERS) + 2 * len(COST_MULTIPLIERS)
    return LimitsScratch(
        make_expectation_scratch(terms, num_scenarios),
        np.zeros(1, dtype=np.int64),
        np.zeros(most),
        np.zeros(most),
        np.zeros(most, dtype=np.int64),
        np.zeros(most),
    )


@kernel
def solve_with_multipliers(
    terms: JobConstants,
    scratch: LimitsScratch,
    scenarios: Scenarios,
    done: int,
    last: int,
    late: float,
    dear: float,
) -> int:
    """Return the place of what is best beside two multipliers, in `scratch`."""
    size = scratch.size[0]
    for i in range(size):
        if scratch.late[i] == late and scratch.dear[i] == dear:
            return i
    prices = Multipliers(late, dear)
    high = fill_expected(terms, scratch.program, scenarios, prices, done)
    count, value = choose_now(terms, scratch.program, scenarios, prices, done, high, last)
    scratch.late[size], scratch.dear[size] = late, dear
    scratch.chosen[size], scratch.value[size] = count, value
    scratch.size[0] = size + 1
    return int(size)


@kernel
def least_late_multiplier(
    terms: JobConstants,
    scratch: LimitsScratch,
    scenarios: Scenarios,
    done: int,
    last: int,
    dear: float,
    risk: float,
) -> float:
    """Return the first lambda at which the risk is known to be kept, or `NONE`."""
    stake = terms.value + termination_cost(terms, terms.workload)
    for i in range(1, len(LATE_MULTIPLIERS)):
        x, y = LATE_MULTIPLIERS[i - 1] * stake, LATE_MULTIPLIERS[i] * stake
        lower = solve_with_multipliers(terms, scratch, scenarios, done, last, x, dear)
        upper = solve_with_multipliers(terms, scratch, scenarios, done, last, y, dear)
        if (scratch.value[lower] - scratch.value[upper]) / (y - x) <= risk:
            return float(y)
    return NONE


@kernel
def least_cost_multiplier(
    terms: JobConstants,
    scratch: LimitsScratch,
    scenarios: Scenarios,
    done: int,
    last: int,
    late: float,
    left: float,
) -> float:
    """The first nu at which the cost is known to be kept, or `NONE`; 0 where there is no limit."""
    if left == np.inf:
        return 0.0
    for i in range(1, len(COST_MULTIPLIERS)):
        x, y = COST_MULTIPLIERS[i - 1], COST_MULTIPLIERS[i]
        lower = solve_with_multipliers(terms, scratch, scenarios, done, last, late, x)
        upper = solve_with_multipliers(terms, scratch, scenarios, done, last, late, y)
        if (scratch.value[lower] - scratch.value[upper]) / (y - x) <= left:
            return float(y)
    return NONE


@kernel
def multipliers_for(
    terms: JobConstants,
    scratch: LimitsScratch,
    scenarios: Scenarios,
    limits: Limits,
    done: int,
    last: int,
) -> tuple[float, float]:
    """lambda and nu that keep both limits, or the cost's where both cannot be kept."""
    alone = least_cost_multiplier(terms, scratch, scenarios, done, last, 0.0, limits.left)
    if alone == NONE:
        return 0.0, COST_MULTIPLIERS[-1]
    if limits.risk == 1.0:
        return 0.0, alone
    late = least_late_multiplier(terms, scratch, scenarios, done, last, alone, limits.risk)
    if late == NONE:
        late = LATE_MULTIPLIERS[-1] * (terms.value + termination_cost(terms, terms.workload))
    both = least_cost_multiplier(terms, scratch, scenarios, done, last, late, limits.left)
    return (0.0, alone) if both == NONE else (late, both)


@kernel
def choose_constrained(
    terms: JobConstants,
    scratch: LimitsScratch,
    scenarios: Scenarios,
    limits: Limits,
    done: int,
    last: int,
) -> int:
    """Return the state for the slot that is seen, by the best plan within the limits.

    Args:
        terms: the job.
        scratch: its buffers.
        scenarios: of the slots t..d-1.
        limits: to be kept.
        done: work, in steps of the grid.
        last: state of the slot before.
    """
    scratch.size[0] = 0
    late, dear = multipliers_for(terms, scratch, scenarios, limits, done, last)
    return int(
        scratch.chosen[solve_with_multipliers(terms, scratch, scenarios, done, last, late, dear)]
    )
