"""The best count from one state, given the values of the next slot.

Ties, within a millionth of a millionth of the job's value: the plan with the most spot GPUs now,
and of those the one with the fewest on-demand GPUs. Spot that is there may be gone later; on-demand
can wait.
"""

from auctune.numerics.jit import kernel
from auctune.spot.arrays import Floats
from auctune.spot.terms import Terms, change
from auctune.spot.window.table import cheapest_spot

TIE = 1e-12


@kernel
def worth_of_count(
    terms: Terms, costs: Floats, after: Floats, stride: int, k: int, high: int, last: int, n: int
) -> float:
    """The value of holding n GPUs in a slot that begins with k done after `last` GPUs."""
    if n == 0:
        return float(after[0, k])
    then = min(k + terms.units[change(n, last), n], high)
    return float(after[n * stride, then] - costs[n])


@kernel
def best_count(
    terms: Terms,
    costs: Floats,
    price: float,
    available: int,
    after: Floats,
    stride: int,
    k: int,
    high: int,
    last: int,
) -> tuple[int, float]:
    """The best count for a slot by the rule of ties, and its value."""
    most = worth_of_count(terms, costs, after, stride, k, high, last, 0)
    for n in range(terms.n_min, terms.n_max + 1):
        most = max(most, worth_of_count(terms, costs, after, stride, k, high, last, n))
    least = most - TIE * (terms.value + abs(most))
    chosen, chosen_spot = -1, -1
    for i in range(terms.n_min - 1, terms.n_max + 1):
        n = 0 if i < terms.n_min else i
        spot = cheapest_spot(n, price, available, terms.on_demand_price)
        # Among equally many spot GPUs the counts rise, so the first has the fewest on-demand.
        if (
            spot > chosen_spot
            and worth_of_count(terms, costs, after, stride, k, high, last, n) >= least
        ):
            chosen, chosen_spot = n, spot
    return chosen, most
