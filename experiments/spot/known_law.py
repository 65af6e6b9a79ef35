"""What one instance costs at best if the law is known by which spot comes and goes, not its course.

Times up and down are independent draws, so the state of the market is whether spot is there and its
age, the slots since it last came or went. With the true hazard of each age the best policy is a
finite-horizon program over (slot, market, what was held before, work done),

    value_h[i][last][k] = max over what is held of expected_h[i][held][k + units] - its cost
    expected_h[i]       = sum over j of P[i, j] value_{h+1}[j],

in which being late costs more than anything else. Ages are exact up to twelve slots and lie in
classes 15% apart above them; within one the hazard is even. There is no net for the deadline: what
the law rules out does not come. The policy that plays it separates what
is lost by not knowing the law (others less this one) from what is lost by not knowing the future
(this one less the offline optimum).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from auctune.numerics.arrays import Floats, Ints
from auctune.numerics.jit import kernel
from auctune.spot import SpotAllocation, SpotJob, SpotMarket, SpotObservation
from auctune.spot.account import JobConstants, job_constants, state_of, units_of
from auctune.spot.forecasts.chain import age_transitions
from auctune.spot.forecasts.forecast import Forecast, MarketChain
from auctune.spot.policies.baselines import progress_and_state
from auctune.spot.window.table import TIE, target_units, units_done

_EXACT_AGES, _CLASS_RATIO = 12, 1.15
_LATE = 1e9
Bytes = NDArray[np.int8]
# P(time > a) of times in slots.
Survival = Callable[[Floats], Floats]


def geometric(leave: float) -> Survival:
    """Return the law of times that end in each slot with probability `leave`."""
    return lambda age: np.asarray((1.0 - leave) ** age)


def rounded_lognormal(mean: float, spread: float) -> Survival:
    """Return the law of log-normal times, rounded to whole slots, one at least."""

    def survival(age: Floats) -> Floats:
        middle = np.log(mean) - spread**2 / 2
        later = stats.norm.sf((np.log(age + 0.5) - middle) / spread)
        return np.asarray(np.where(age < 1, 1.0, later))

    return survival


def spell_chain(down: Survival, up: Survival, num_slots: int, price: float) -> MarketChain:
    """Return the chain of a market of one instance, its states by (down or up, class of age)."""
    first = class_ages(num_slots)
    width = np.append(np.diff(first), num_slots)
    leave = []
    for survival in (down, up):
        stays = np.maximum(survival(first + width.astype(float)), 1e-300)
        before = np.maximum(survival(first.astype(float)), 1e-300)
        leave.append(1.0 - (stays / before) ** (1.0 / width))
    same = np.eye(2)
    transition = age_transitions(np.array(leave), width[:-1], 1.0 - same, same)
    available = np.repeat(np.array([0, 1]), len(first))
    return MarketChain(np.full(len(transition), price), available, transition, present=-1)


def class_ages(num_slots: int) -> Ints:
    """[i] the first age of each class."""
    ages = list(range(_EXACT_AGES))
    while ages[-1] < num_slots:
        ages.append(int(np.ceil(max(ages[-1] * _CLASS_RATIO, ages[-1] + 1))))
    return np.array(ages)


@kernel
def fill_decisions(
    terms: JobConstants, chain: MarketChain, num_slots: int, decisions: Bytes
) -> None:
    """[h, i, last, k] the best state to hold, for one instance; ties go to spot.

    Args:
        terms: the job, by instance.
        chain: of the market.
        num_slots: h.
        decisions: to be filled.
    """
    high = target_units(terms, terms.workload)
    num = len(chain.price)
    expected = np.full((num, 4, high + 1), -_LATE)
    expected[:, :, high] = 0.0
    value = expected.copy()
    idle, spot, on_demand = 0, state_of(terms, 0, 1), state_of(terms, 1, 0)
    for h in range(num_slots - 1, -1, -1):
        for i in range(num):
            for last in (idle, spot, on_demand):
                own, chosen = value[i, last], decisions[h, i, last]
                own[:], chosen[:] = expected[i, idle], idle
                for state in (on_demand, spot):
                    if state == spot and not chain.available[i]:
                        continue
                    cost = terms.on_demand_price if state == on_demand else chain.price[i]
                    units = units_of(terms, state, last)
                    tie = TIE * terms.value if state == spot else -TIE * terms.value
                    for k in range(high):
                        worth = expected[i, state, min(max(k + units, 0), high)] - cost
                        if worth >= own[k] - tie:
                            own[k], chosen[k] = worth, state
        for i in range(num):
            for last in (idle, spot, on_demand):
                mean = expected[i, last]
                mean[:] = 0.0
                for j in range(num):
                    weight, row = chain.transition[i, j], value[j, last]
                    if weight > 0.0:
                        for k in range(high + 1):
                            mean[k] += weight * row[k]


@dataclass(frozen=True, slots=True, eq=False)
class KnownLaw:
    """The policy, and the forecaster that tells it the state of the market.

    Attributes:
        chain: of the market; its states by (down or up, class of age).
        decisions: of one job; see `fill_decisions`.
    """

    chain: MarketChain
    decisions: Bytes

    @classmethod
    def of(cls, job: SpotJob, chain: MarketChain) -> "KnownLaw":
        """Solve the program of a job of one instance."""
        terms = job_constants(job, 1.0)
        assert terms.by_instance
        assert terms.n_max == 1
        columns = int(target_units(terms, terms.workload)) + 1
        shape = (job.deadline, len(chain.price), 4, columns)
        decisions = np.zeros(shape, dtype=np.int8)
        fill_decisions(terms, chain, job.deadline, decisions)
        return cls(chain, decisions)

    @property
    def name(self) -> str:
        return "true law known"

    @property
    def horizon(self) -> None:
        return

    def forecast(self, past: SpotMarket, num_slots: int) -> Forecast:
        there = np.minimum(past.available, 1)
        changes = np.flatnonzero(np.diff(there))
        age = past.num_slots - 1 - (int(changes[-1]) + 1 if len(changes) else 0)
        num = len(self.chain.price) // 2
        begun = int(np.searchsorted(class_ages(10**6)[:num], age, "right")) - 1
        chain = self.chain._replace(present=int(there[-1]) * num + begun)
        ahead = (num_slots, 0)
        return Forecast(
            np.zeros(num_slots),
            np.zeros(num_slots, dtype=np.int64),
            np.zeros(0),
            np.zeros(ahead),
            np.zeros(ahead, dtype=np.int64),
            chain,
        )

    def start(self, job: SpotJob) -> "_Run":
        return _Run(self, job_constants(job, 1.0))


class _Run:
    def __init__(self, law: KnownLaw, terms: JobConstants) -> None:
        self._law, self._terms = law, terms

    def allocate(self, observation: SpotObservation) -> SpotAllocation:
        slot = observation.slot
        progress, last = progress_and_state(self._terms, observation)
        assert observation.forecast is not None
        assert observation.forecast.chain is not None
        present = observation.forecast.chain.present
        done = int(units_done(self._terms, progress))
        return SpotAllocation(*divmod(int(self._law.decisions[slot, present, last, done]), 2))
