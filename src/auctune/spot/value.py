"""What a finished job is worth, and how a late one ends.

Kong et al. (arXiv 2512.20967), eqs. 4 and 7 to 9:

    V(T) = v                                 for T <= d
         = v (1 - (T - d) / ((g - 1) d))     for d < T <= g d
         = 0                                 after

What is left at d runs on N_max on-demand GPUs for delta = (L - Z)^+ / (mu_1 H(N_max)) slots, paid
by the fraction; no job is abandoned. So Vt(Z) = V(d + delta) - p_o N_max delta. By instance
delta = (L - Z + s (H(N_max) - H(n))) / H(N_max) for L > Z: of the N_max the n on-demand GPUs that
are held at d need no start.
"""

from auctune.numerics.arrays import Floats
from auctune.numerics.jit import kernel
from auctune.spot.account import (
    TOLERANCE,
    JobConstants,
    job_constants,
    owed_by_on_demand,
    remaining_work,
)
from auctune.spot.grid import GROWN, UNCHANGED
from auctune.spot.job import SpotJob


@kernel
def value_at(terms: JobConstants, finish: float) -> float:
    """V(T)."""
    soft = float(terms.num_slots)
    if finish <= soft:
        return terms.value
    if finish > terms.hard_deadline:
        return 0.0
    return terms.value * (1.0 - (finish - soft) / (terms.hard_deadline - soft))


@kernel
def termination_slots(terms: JobConstants, rest: float, on_demand: int = 0) -> float:
    """delta: slots that N_max on-demand GPUs need for `rest`, `on_demand` of which are held."""
    if terms.by_instance:
        if rest <= TOLERANCE * terms.workload:
            return 0.0
        most = float(terms.work[UNCHANGED, terms.n_max])
        return (rest + terms.start * (most - float(terms.work[UNCHANGED, on_demand]))) / most
    return rest / float(terms.work[GROWN, terms.n_max])


@kernel
def termination_cost(terms: JobConstants, rest: float, on_demand: int = 0) -> float:
    """p_o N_max delta."""
    return terms.on_demand_price * terms.n_max * termination_slots(terms, rest, on_demand)


@kernel
def overtime_slots(terms: JobConstants, starting: Floats, progress: float, on_demand: int) -> float:
    """delta of a job that ends its slots with this progress.

    The on-demand GPUs that it holds at d go on, and those of them that start go on starting:
    `starting` is that of `auctune.spot.account.run_slot`.
    """
    rest = remaining_work(terms, progress)
    if rest == 0.0:
        return 0.0
    if terms.by_instance:
        rest += owed_by_on_demand(terms, starting, on_demand)
    return termination_slots(terms, rest, on_demand)


@kernel
def terminal_value(terms: JobConstants, rest: float, on_demand: int = 0) -> float:
    """V(d + delta) - p_o N_max delta, for what is left at the deadline."""
    finish = terms.num_slots + termination_slots(terms, rest, on_demand)
    return value_at(terms, finish) - termination_cost(terms, rest, on_demand)


def value_of_finish(job: SpotJob, finish: float) -> float:
    """V(T) (eq. 4); `finish` in slots from the job's start."""
    return value_at(job_constants(job, 1.0), float(finish))


def value_at_deadline(job: SpotJob, progress: float, on_demand_price: float = 1.0) -> float:
    """Vt(Z) (eq. 9): the value, less the cost of the ending, with `progress` done at d."""
    terms = job_constants(job, on_demand_price)
    return terminal_value(terms, remaining_work(terms, float(progress)))


def least_utility(job: SpotJob, highest_price: float, on_demand_price: float = 1.0) -> float:
    """U_min = -N_max max(p_o, p_max) (d + L / (mu_1 H(N_max))): no run is worse.

    Args:
        job: the job.
        highest_price: p_max, that no spot price passes.
        on_demand_price: p_o.
    """
    terms = job_constants(job, on_demand_price)
    slots = job.deadline + termination_slots(terms, terms.workload)
    return -job.n_max * max(on_demand_price, highest_price) * slots
