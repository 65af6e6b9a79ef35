"""What a finished job is worth, and how a late one ends.

Kong et al. (arXiv 2512.20967), eqs. 4 and 7 to 9:

    V(T) = v                                 for T <= d
         = v (1 - (T - d) / ((g - 1) d))     for d < T <= g d
         = 0                                 after

What is left at d runs on N_max on-demand GPUs for delta = (L - Z)^+ / (mu_1 H(N_max)) slots, paid
by the fraction; no job is abandoned. So Vt(Z) = V(d + delta) - p_o N_max delta.
"""

from auctune.numerics.jit import kernel
from auctune.spot.job import SpotJob
from auctune.spot.terms import GROWN, Terms, make_terms, rest_of


@kernel
def value_at(terms: Terms, finish: float) -> float:
    """V(T)."""
    soft = float(terms.num_slots)
    if finish <= soft:
        return terms.value
    if finish > terms.hard_deadline:
        return 0.0
    return terms.value * (1.0 - (finish - soft) / (terms.hard_deadline - soft))


@kernel
def ending_slots(terms: Terms, rest: float) -> float:
    """delta: slots that N_max on-demand GPUs need for `rest`."""
    return rest / float(terms.work[GROWN, terms.n_max])


@kernel
def ending_cost(terms: Terms, rest: float) -> float:
    """p_o N_max delta."""
    return terms.on_demand_price * terms.n_max * ending_slots(terms, rest)


@kernel
def worth_of_rest(terms: Terms, rest: float) -> float:
    """V(d + delta) - p_o N_max delta, for what is left at the deadline."""
    return value_at(terms, terms.num_slots + ending_slots(terms, rest)) - ending_cost(terms, rest)


def value_of_finish(job: SpotJob, finish: float) -> float:
    """V(T) (eq. 4); `finish` in slots from the job's start."""
    return value_at(make_terms(job, 1.0), float(finish))


def worth_at_deadline(job: SpotJob, progress: float, on_demand_price: float = 1.0) -> float:
    """Vt(Z) (eq. 9): the value, less the cost of the ending, with `progress` done at d."""
    terms = make_terms(job, on_demand_price)
    return worth_of_rest(terms, rest_of(terms, float(progress)))


def least_utility(job: SpotJob, highest_price: float, on_demand_price: float = 1.0) -> float:
    """U_min = -N_max max(p_o, p_max) (d + L / (mu_1 H(N_max))): no run is worse.

    Args:
        job: the job.
        highest_price: p_max, that no spot price passes.
        on_demand_price: p_o.
    """
    terms = make_terms(job, on_demand_price)
    slots = job.deadline + ending_slots(terms, terms.workload)
    return -job.n_max * max(on_demand_price, highest_price) * slots
