"""The forecast of numbers of bids by who knows the law of arrivals, and what has come so far today.

Days of the law are drawn. With c_t the bids of slot t, y_t = ln(1 + c_t), and S the covariance of y
over the days drawn, slots p over and f to come, a drawn day y' is conditioned on today's y by

    y'_f + S_fp S_pp^-1 (y_p - y'_p),

which has the law of f given p if y is normal, and the mean and covariance of the best linear
forecast if it is not (Matheron's rule; Journel and Huijbregts, "Mining Geostatistics", 1978). The
scenarios' mean is scaled to that of many days so conditioned.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from auctune.auction.pricing import LearnedParams
from auctune.auction.pricing.forecast import ForecastState
from auctune.domain import Task
from auctune.numerics.arrays import Floats, Ints
from auctune.numerics.rng import stream
from auctune.sim.workloads.arrivals import (
    PHILLY_2017,
    Arrivals,
    BurstyArrivals,
    PoissonArrivals,
)
from harness.market import Setting

# Days that the law is estimated from, and that a mean is taken over.
_DAYS, _OF_MEAN = 2_000, 400
# Of the variances: drawn days are finitely many.
_RIDGE = 1e-3
# Days with as many bids in a slot that say how many it will bring.
_FEWEST = 4
_LEARNED = LearnedParams()


@dataclass(frozen=True, slots=True, eq=False)
class KnownLaw:
    """The law of a day's numbers of bids.

    Attributes:
        logs: [D, T] y of drawn days.
        covariance: [T, T] S.
    """

    logs: Floats
    covariance: Floats

    def conditioned(self, past: Floats, days: Ints) -> Floats:
        """Return [len(days), T - p] counts of the slots to come, given [p] of those over."""
        num_past, drawn = len(past), self.logs[days]
        cov = self.covariance
        weights = np.linalg.solve(cov[:num_past, :num_past], cov[:num_past, num_past:])
        missed = np.log1p(past) - drawn[:, :num_past]
        counts: Floats = np.maximum(np.expm1(drawn[:, num_past:] + missed @ weights), 0.0)
        return counts


@functools.cache
def known_law(market: Setting) -> KnownLaw:
    """Return the law of a market without a job log."""
    workload = dict(market.workload)
    rate, bursty = float(workload.get("rate", "50")), workload.get("arrivals") == "bursty"
    arrivals: Arrivals = BurstyArrivals(PHILLY_2017, rate) if bursty else PoissonArrivals(rate)
    slot_seconds = float(workload.get("slot_seconds", "600"))
    per_day, random = 86_400 / slot_seconds, stream(0, "known law")
    num_slots = round(float(workload.get("slots", float(workload.get("days", "1")) * per_day)))
    drawn = (arrivals.draw(num_slots, slot_seconds, random).slot for _ in range(_DAYS))
    logs = np.log1p([np.bincount(slots, minlength=num_slots) for slots in drawn])
    return KnownLaw(logs, np.cov(logs.T) + _RIDGE * np.eye(num_slots))


class KnownLawForecast:
    """The forecast of a day, which is read up to the slot before the current one.

    Args:
        law: the law.
        tasks: of the day.
    """

    def __init__(self, law: KnownLaw, tasks: Sequence[Task]) -> None:
        num_slots = law.logs.shape[1]
        self._law = law
        self._day = np.bincount([task.arrival for task in tasks], minlength=num_slots).astype(float)

    def predict(
        self, now: ForecastState, num_slots: int, num_scenarios: int
    ) -> tuple[float, Floats]:
        """As `CountForecast` says."""
        past = self._day[: now.slot]
        days = stream(now.slot, "conditioned days").permutation(len(self._law.logs))
        many = self._law.conditioned(past, days[:_OF_MEAN])
        mean, paths = many.mean(axis=0), many[:num_scenarios]
        paths = (paths * mean / np.maximum(paths.mean(axis=0), 1e-9))[:, :num_slots]
        total = float(mean[0])
        if total < now.num_seen:
            as_many = many[many[:, 0] >= now.num_seen, 0]
            more = as_many.mean() if len(as_many) >= _FEWEST else _LEARNED.more * now.num_seen
            total = max(float(more), _LEARNED.min_more * now.num_seen)
        paths[:, 0] = max(0.0, total - now.num_seen)
        return total, paths
