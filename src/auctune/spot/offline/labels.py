"""The offline optimum without a work grid: Pareto labels of (work, cost).

After each slot, and for each count n held in it, the labels are the attainable pairs of work done
(at most L) and cost that no other pair of the same n beats in both. More work is never worse, since
Vt rises with Z. A label falls as soon as its cost and the bound on what can still come are below
what is known to be attainable. The bound is the value table of a grid that rounds work up.
"""

from dataclasses import dataclass
from functools import reduce

import numpy as np

from auctune.spot.allocation import SpotAllocation
from auctune.spot.arrays import Floats, Ints
from auctune.spot.market import SpotMarket
from auctune.spot.terms import GROWN, SHRUNK, TOLERANCE, UNCHANGED, Terms, rest_of
from auctune.spot.value import worth_of_rest
from auctune.spot.window.table import cheapest_spot, fill_costs

# Differences of utility below this share of the value are rounding.
SLACK = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class _Front:
    """Labels of one slot and one count, by rising work and cost.

    Attributes:
        work, cost: [i].
        from_count, from_label: [i] the label of the slot before that each comes from.
    """

    work: Floats
    cost: Floats
    from_count: Ints
    from_label: Ints


class Labels:
    """Labels of one job in one market."""

    def __init__(self, terms: Terms, market: SpotMarket, bounds: Floats, high: int) -> None:
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
        self._counts = [0, *range(terms.n_min, terms.n_max + 1)]

    def best_plan(self, attained: float) -> list[SpotAllocation] | None:
        """The plan with the most utility.

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
        best, count, label = attained, -1, -1
        for n, front in fronts.items():
            worth = [worth_of_rest(self._terms, rest_of(self._terms, z)) for z in front.work]
            utility = np.array(worth) - front.cost
            i = int(np.argmax(utility))
            if utility[i] > best:
                best, count, label = float(utility[i]), n, i
        return None if count < 0 else self._trace(history, count, label)

    def _extend(self, fronts: dict[int, _Front], slot: int, attained: float) -> dict[int, _Front]:
        terms, market = self._terms, self._market
        costs = np.empty(terms.n_max + 1)
        fill_costs(terms, float(market.price[slot]), int(market.available[slot]), costs)
        extended = {}
        for n in self._counts:
            moved = [
                _Front(
                    np.minimum(front.work + self._work(n, last), terms.workload),
                    front.cost + costs[n],
                    np.full(len(front.work), last, dtype=np.int64),
                    np.arange(len(front.work), dtype=np.int64),
                )
                for last, front in fronts.items()
            ]
            front = self._prune(_pareto(reduce(_join, moved)), n, slot, attained)
            if len(front.work):
                extended[n] = front
        return extended

    def _work(self, count: int, last: int) -> float:
        if count == 0:
            return 0.0
        row = GROWN if count > last else SHRUNK if count < last else UNCHANGED
        return float(self._terms.work[row, count])

    def _prune(self, front: _Front, count: int, slot: int, attained: float) -> _Front:
        terms = self._terms
        steps = np.ceil((front.work - TOLERANCE * terms.workload) / terms.step).astype(np.int64)
        steps = np.clip(steps, 0, self._high)
        row = 0 if slot + 1 == terms.num_slots else count
        # Tolerated rounding of work counts as done, so the bound looks one step further.
        bound = self._bounds[slot, row, np.minimum(steps + 1, self._high)] - front.cost
        kept = bound >= attained - SLACK * (terms.value + abs(attained))
        return _Front(
            front.work[kept], front.cost[kept], front.from_count[kept], front.from_label[kept]
        )

    def _trace(
        self, history: list[dict[int, _Front]], count: int, label: int
    ) -> list[SpotAllocation]:
        counts = []
        for fronts in reversed(history[1:]):
            counts.append(count)
            front = fronts[count]
            count, label = int(front.from_count[label]), int(front.from_label[label])
        return [self._split(n, slot) for slot, n in enumerate(reversed(counts))]

    def _split(self, count: int, slot: int) -> SpotAllocation:
        market = self._market
        spot = int(
            cheapest_spot(
                count,
                float(market.price[slot]),
                int(market.available[slot]),
                self._terms.on_demand_price,
            )
        )
        return SpotAllocation(count - spot, spot)


def _join(x: _Front, y: _Front) -> _Front:
    return _Front(
        np.concatenate((x.work, y.work)),
        np.concatenate((x.cost, y.cost)),
        np.concatenate((x.from_count, y.from_count)),
        np.concatenate((x.from_label, y.from_label)),
    )


def _pareto(front: _Front) -> _Front:
    """The labels that no other one beats in work and cost; of equals the first."""
    order = np.lexsort((front.cost, -front.work))
    cheapest_with_more = np.minimum.accumulate(np.concatenate(([np.inf], front.cost[order][:-1])))
    kept = order[front.cost[order] < cheapest_with_more][::-1]
    return _Front(
        front.work[kept], front.cost[kept], front.from_count[kept], front.from_label[kept]
    )
