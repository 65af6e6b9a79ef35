"""Prices that learn from an earlier day: two ways that were tried on the testbed's setting.

Both draw days to come from the bids of earlier days: in each slot as many as those days brought
around it (Poisson), each a bid of theirs. No draw depends on the bid being priced.

`ShadowPrices`  the mean over drawn days of the multipliers of capacity in the linear program of the
                bound, over what is free
`Displacement`  the price of a line of the menu is by how much its plan lowers the welfare that Eris
                would have of the drawn days: neither linear nor pooled
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from auctune.edge import EdgeJob, EdgeLedger, EdgeMarket, EdgePrices, EdgePricing
from auctune.edge.offline.optimum import add_pooled_job
from auctune.edge.offline.program import ProgramBuilder
from auctune.edge.search import Offer, offers
from auctune.numerics.arrays import Floats
from auctune.numerics.highs import SolveOptions, solve

# Slots ahead that a drawn day has: what a plan takes later is hardly worth anything.
_AHEAD = 16
# Bids within so many slots to each side tell the rate of a slot.
_WIDTH = 8
# Finishes so late that a job is hardly worth anything are one column.
_TAIL = 12


class Days:
    """Days to come, drawn from the bids of earlier days.

    Args:
        days: bids of each.
        slots: of a day.
        seed: of the draws.
    """

    def __init__(self, days: Sequence[Sequence[EdgeJob]], slots: int, seed: int) -> None:
        self._bids = [job for day in days for job in day]
        self._slots = slots
        self._random = np.random.default_rng(seed)
        arrivals, counts = np.array([job.arrival for job in self._bids]), np.arange(slots)
        near = np.abs(arrivals[None, :] - counts[:, None]) <= _WIDTH
        first, last = np.maximum(counts - _WIDTH, 0), np.minimum(counts + _WIDTH, slots - 1)
        self._rate: Floats = near.sum(axis=1) / (last - first + 1) / len(days)

    def draw(self, now: int, number: int) -> list[list[EdgeJob]]:
        """Return bids of the slots after `now`, in so many scenarios."""
        return [list(self._scenario(now)) for _ in range(number)]

    def _scenario(self, now: int) -> Iterator[EdgeJob]:
        for slot in range(now + 1, min(now + 1 + _AHEAD, self._slots)):
            for index in range(self._random.poisson(self._rate[slot])):
                job = self._bids[self._random.integers(len(self._bids))]
                yield replace(job, id=f"{slot}.{index}", arrival=slot)


class KnownDay:
    """The rest of the day as it comes: what no mechanism can know."""

    def __init__(self, jobs: Sequence[EdgeJob]) -> None:
        self._jobs = jobs

    def draw(self, now: int, number: int) -> list[list[EdgeJob]]:
        """Return the bids after `now`."""
        return [[job for job in self._jobs if job.arrival > now]]


@dataclass(frozen=True, slots=True, eq=False)
class _Fixed:
    alpha: Floats
    beta: Floats

    def __call__(self, ledger: EdgeLedger, first: int = 0) -> EdgePrices:
        return EdgePrices(first, self.alpha[first:], self.beta[first:])


def best_offer(
    ledger: EdgeLedger, pricing: EdgePricing, job: EdgeJob
) -> tuple[Offer | None, float]:
    """Return the choice of a job at its arrival, and its surplus."""
    best, most = None, 0.0
    for offer in offers(ledger, pricing, job, job.arrival):
        value = job.value(offer.finish)
        if value <= most:
            break
        if value - offer.cost > most:
            best, most = offer, value - offer.cost
    return best, most


def sell(ledger: EdgeLedger, pricing: EdgePricing, job: EdgeJob) -> float:
    """Book the choice of a job at its arrival; return what it is worth."""
    offer, _ = best_offer(ledger, pricing, job)
    if offer is None:
        return 0.0
    ledger.take(job, offer.plan(ledger, job))
    return job.value(offer.finish)


def shadow_welfare(
    market: EdgeMarket, jobs: Sequence[EdgeJob], days: Days, scenarios: int, share: float
) -> float:
    """Return the welfare at the mean multipliers of drawn days.

    Args:
        market: the supply, empty.
        jobs: bids by arrival.
        days: to draw from.
        scenarios: how many at each bid.
        share: of the free capacity that the programs have: a job takes much of a slot at once, and
            the next one finds less.
    """
    ledger, welfare = EdgeLedger(market), 0.0
    for job in jobs:
        found = [_multipliers(ledger, day, share) for day in days.draw(job.arrival, scenarios)]
        alpha = np.mean([one for one, _ in found], axis=0)
        beta = np.mean([one for _, one in found], axis=0)
        by_site = np.repeat(beta[:, None, :], len(market.sites), axis=1)
        welfare += sell(ledger, _Fixed(alpha, by_site), job)
    return welfare


def _multipliers(
    ledger: EdgeLedger, jobs: Sequence[EdgeJob], share: float
) -> tuple[Floats, Floats]:
    """Traffic [T] and units [T, K] of the pooled program over what is free, money."""
    builder = ProgramBuilder()
    free = share * ledger.free(0).sum(axis=1)
    kinds = [[builder.row([], upper=float(units)) for units in slot] for slot in free]
    traffic = [builder.row([], upper=share * float(room)) for room in ledger.room(0)]
    for job in jobs:
        add_pooled_job(builder, ledger, job, _TAIL, kinds, traffic)
    if not builder.num_columns:
        return np.zeros(len(traffic)), np.zeros(free.shape)
    duals = solve(builder.build(), SolveOptions()).row_duals
    assert duals is not None
    return np.abs(duals[traffic]), np.abs(duals[np.array(kinds)])


def displacement_welfare(
    market: EdgeMarket,
    jobs: Sequence[EdgeJob],
    days: Days | KnownDay,
    pricing: EdgePricing,
    scenarios: int,
) -> float:
    """Return the welfare where each line of a menu costs what its plan displaces.

    Args:
        market: the supply, empty.
        jobs: bids by arrival.
        days: to draw from.
        pricing: by which plans are made, and by which drawn bids are sold.
        scenarios: how many at each bid.
    """
    ledger, welfare = EdgeLedger(market), 0.0
    for job in jobs:
        drawn = days.draw(job.arrival, scenarios)
        without = _welfare_of(ledger, pricing, drawn)
        best, most = None, 0.0
        for offer in offers(ledger, pricing, job, job.arrival):
            value = job.value(offer.finish)
            if value <= most:
                break
            plan = offer.plan(ledger, job)
            ledger.take(job, plan)
            price = max(0.0, without - _welfare_of(ledger, pricing, drawn))
            ledger.give_back(job, plan)
            if value - price > most:
                best, most = plan, value - price
        if best is not None:
            ledger.take(job, best)
            welfare += job.value(best.finish)
    return welfare


def _welfare_of(
    ledger: EdgeLedger, pricing: EdgePricing, drawn: Sequence[Sequence[EdgeJob]]
) -> float:
    """Mean over scenarios of what Eris would have of them."""
    total = 0.0
    for day in drawn:
        later = ledger.copy()
        total += sum(sell(later, pricing, job) for job in day)
    return total / max(1, len(drawn))
