"""Advice on a job that runs or is about to: what to hold, likely cost, finish and risk."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from auctune.domain import InputError
from auctune.numerics.arrays import Floats, Ints
from auctune.sim.spot.forecasts import ForecasterSpec
from auctune.sim.spot.trials import widest_horizon
from auctune.spot import (
    IDLE,
    PastSlot,
    Policy,
    SpotAllocation,
    SpotJob,
    SpotMarket,
    SpotOutcome,
    play,
)
from auctune.spot.forecasts import Forecast, Forecaster, ForecastTable, stack_forecasts

# What may come after a past: stretches of that past which began as the present stands.
#
# Of the n moments s in the past with as many slots after them as are asked for, those are taken
# whose count A_s is the present one, counts above N_max being all alike, and of these the 4 sqrt(n)
# nearest in price, with all that are as near as the last of them. sqrt(n) of them, evenly spread
# over time, are played, since neighbours are followed by much the same. What followed each may
# follow now, counts as they were, prices by their changes,
#
# A_{t+h} = A_{s+h}, p_{t+h} = max(0, p_t + p_{s+h} - p_s)
#
# (resampling of analogues; k as in Lall and Sharma, "A nearest neighbor bootstrap for resampling
# hydrologic time series", Water Resources Research 32(3), 1996, who weigh the j-th by 1/j where
# here all are as likely). How price and count move together, and how long either stays, is thereby
# as it was.
#
# The past is itself a sample, and markets drift: p90 is moved away from p50 by the factor 1 + d/n
# for d slots to come, up to what a market without any spot GPU would come to. (The mean of d slots,
# predicted by that of n others, has 1 + d/n times its own variance. That drift asks for this factor
# of the deviation was found on the series that `benchmarks/spot_advice.py` leaves out.)


# Under which a quantile of what came says nothing.
_LEAST = 8

# Moments to spread the futures over, as a multiple of sqrt(n).
_CHOICE = 4


def likely_futures(
    past: SpotMarket, num_slots: int, n_max: int, most_futures: int | None = None
) -> list[SpotMarket]:
    """Return markets that begin as `past` and go on in ways that it has seen, each as likely.

    Args:
        past: its last slot is the present one.
        num_slots: slots to come.
        n_max: counts from this on are alike.
        most_futures: no more than so many; None: all.

    Returns:
        Markets of as many slots as the past and those to come, from the earliest analogue to the
        latest.

    Raises:
        InputError: if the past is too short.
    """
    moments = _analogues(past, num_slots, n_max)
    num = min(len(moments), _num_futures(past.num_slots - num_slots))
    num = num if most_futures is None else min(num, most_futures)
    spread = moments[np.round(np.linspace(0, len(moments) - 1, num)).astype(np.int64)]
    return [_continued(past, moment, num_slots) for moment in spread.tolist()]


def _num_futures(num_moments: int) -> int:
    return max(_LEAST, math.isqrt(num_moments - 1) + 1)


def _analogues(past: SpotMarket, num_slots: int, n_max: int) -> Ints:
    """[i] moments that were like the present, in order of time."""
    present = past.num_slots - 1
    num_moments = present - num_slots + 1
    if num_moments < _LEAST:
        expected = f"{num_slots + _LEAST} at least, to tell what may come in {num_slots}"
        raise InputError("market", f"{past.num_slots} slots up to the present one", expected)
    count = np.minimum(past.available, n_max)
    far = np.abs(count[:num_moments] - count[present])
    dear = np.abs(past.price[:num_moments] - past.price[present])
    nearest = np.lexsort((dear, far))
    num_alike = int(np.count_nonzero(far == 0))
    last = nearest[max(_LEAST, min(num_alike, _CHOICE * _num_futures(num_moments))) - 1]
    as_far = (far == far[last]) & (dear <= dear[last])
    return np.flatnonzero((far < far[last]) | as_far)


def _continued(past: SpotMarket, moment: int, num_slots: int) -> SpotMarket:
    after = slice(moment + 1, moment + 1 + num_slots)
    changes = past.price[after] - past.price[moment]
    return _joined(past, np.maximum(past.price[-1] + changes, 0.0), past.available[after])


def _without_spot(past: SpotMarket, num_slots: int) -> SpotMarket:
    """Return the past and no spot GPU after it."""
    none = np.zeros(num_slots, dtype=np.int64)
    return _joined(past, np.full(num_slots, past.price[-1]), none)


def _joined(past: SpotMarket, price: Floats, available: Ints) -> SpotMarket:
    return SpotMarket(
        np.concatenate((past.price, price)),
        np.concatenate((past.available, available)),
        past.on_demand_price,
        past.slot_seconds,
    )


# For one job that runs or is about to: what to hold now, and what is likely to come of it.
#
# The job is played from its first slot up to the present as the market was, or taken as a real run
# left it, then on through the possible futures. In every slot of each the policy decides again, on
# a new forecast. Cost, finish and lateness are those of the futures.

_SLACK = 1e-9


@dataclass(frozen=True, slots=True)
class Advice:
    """Advice for a job at a moment; money in units of the on-demand price, times in slots.

    Attributes:
        slot: t, slots since the job began.
        now: what to hold in it.
        progress: work done before it.
        spent: before it.
        is_done: whether the work is done by now.
        cost, cost_p50, cost_p90: of the whole job, the mean and quantiles.
        costs: of each play, of which `cost` is the mean.
        finish_p50, finish_p90: since the job's beginning.
        risk: the probability of being done after the soft deadline.
        utility: the mean of value less cost.
        num_futures: plays that means, quantiles and risk were read off.
    """

    slot: int
    now: SpotAllocation
    progress: float
    spent: float
    is_done: bool
    cost: float
    cost_p50: float
    cost_p90: float
    costs: tuple[float, ...]
    finish_p50: float
    finish_p90: float
    risk: float
    utility: float
    num_futures: int

    def mean_cost(self, limit: float) -> float:
        """Return the mean cost of a job that ends when it has cost `limit`."""
        return float(np.minimum(self.costs, limit).mean())


def advise(
    job: SpotJob,
    policy: Policy,
    forecaster_spec: ForecasterSpec,
    seen: SpotMarket,
    start: int,
    *,
    past: Sequence[PastSlot] = (),
    most_futures: int | None = None,
    delay: int = 0,
    speeds: Sequence[float] = (1.0,),
    advance: Callable[[], None] | None = None,
) -> Advice:
    """Advise a job.

    Args:
        job: the job.
        policy: by which it was run so far, and is to be run.
        forecaster_spec: how to forecast; not one that knows the future.
        seen: the market, its last slot the present one.
        start: slot of it in which the job began.
        past: the job's slots before the present one, if it runs; empty: they are played.
        most_futures: to play; None: the square root of the past's moments.
        delay: slots after the present one in which a job begins that `start` says begins now.
        speeds: at which it may be done, relative to what its workload says, each as likely; each
            future and each speed is played at least once.
        advance: called after each play.

    Raises:
        InputError: if the job is not yet begun or its deadline over, the past is too short to
            tell what may come, or the forecaster knows the future.
    """
    slot = seen.num_slots - 1 - start
    _check(job, forecaster_spec, seen, start, slot)
    # A deadline that is near leaves slots beyond it out.
    num_ahead = job.deadline - 1 - slot + delay
    first = start + delay
    futures, worst, room = [seen], [seen], 1.0
    if num_ahead:
        futures = likely_futures(seen, num_ahead, job.n_max, most_futures)
        worst = [_without_spot(seen, num_ahead)]
        room += num_ahead / (seen.num_slots - num_ahead)
    table = _Forecasts(forecaster_spec, seen, first, widest_horizon([policy], job), job.deadline)

    def outcomes(
        markets: Sequence[SpotMarket], speeds: Sequence[float], num_plays: int
    ) -> list[SpotOutcome]:
        tables = [table.of(market) for market in markets]
        played = []
        for number in range(num_plays):
            which = number % len(markets)
            mine = markets[which].between(first, first + job.deadline)
            paced = replace(job, workload=job.workload / speeds[number % len(speeds)])
            played.append(play(policy, paced, mine, tables[which], past))
            if advance is not None:
                advance()
        return played

    likely = outcomes(futures, speeds, max(len(futures), len(speeds)))
    (limit,) = outcomes(worst, (min(speeds),), 1)
    return _summary(job, seen, start, likely, limit, room)


class _Forecasts:
    """Forecasts in all slots of the job; what is fitted to the past serves all futures."""

    def __init__(
        self,
        forecaster_spec: ForecasterSpec,
        seen: SpotMarket,
        start: int,
        horizon: int,
        deadline: int,
    ) -> None:
        self._horizon = horizon
        self._ahead = range(max(start, seen.num_slots), start + deadline)
        self._forecaster: Forecaster | None = None
        self._made: list[Forecast] = []
        if horizon:
            self._forecaster = forecaster_spec.forecaster(seen, seed=0)
            self._made = [self._at(seen, slot) for slot in range(start, seen.num_slots)]

    def of(self, market: SpotMarket) -> ForecastTable | None:
        """Return those of one future; None where nobody looks."""
        if self._forecaster is None:
            return None
        return stack_forecasts(self._made + [self._at(market, slot) for slot in self._ahead])

    def _at(self, market: SpotMarket, slot: int) -> Forecast:
        assert self._forecaster is not None
        return self._forecaster.forecast(market.until(slot), self._horizon)


def _summary(
    job: SpotJob,
    seen: SpotMarket,
    start: int,
    outcomes: Sequence[SpotOutcome],
    limit: SpotOutcome,
    room: float,
) -> Advice:
    slot = seen.num_slots - 1 - start
    # Up to the present slot all futures are one.
    held, reached = outcomes[0].allocations, outcomes[0].progress
    cost = np.array([outcome.cost for outcome in outcomes])
    finish = np.array([outcome.finish for outcome in outcomes])
    cost_p50, cost_p90 = _quantiles(cost, room, limit.cost)
    finish_p50, finish_p90 = _quantiles(finish, room, limit.finish)
    return Advice(
        slot=slot,
        now=held[slot] if slot < len(held) else IDLE,
        progress=reached[min(slot, len(reached)) - 1] if slot else 0.0,
        spent=_spent(held[:slot], seen, start),
        is_done=len(held) <= slot,
        cost=float(cost.mean()),
        cost_p50=cost_p50,
        cost_p90=cost_p90,
        costs=tuple(cost.tolist()),
        finish_p50=finish_p50,
        finish_p90=finish_p90,
        risk=float((finish > job.deadline + _SLACK).mean()),
        utility=float(np.mean([outcome.utility for outcome in outcomes])),
        num_futures=len(outcomes),
    )


def _check(
    job: SpotJob, forecaster_spec: ForecasterSpec, seen: SpotMarket, start: int, slot: int
) -> None:
    if forecaster_spec.knows_future:
        raise InputError("forecast", "knows the future", "chain, seasonal or arima, to advise by")
    if not 0 <= start < seen.num_slots:
        expected = f"a slot of the market, 0 to {seen.num_slots - 1}"
        raise InputError("start", f"{start}", expected)
    if slot >= job.deadline:
        found = f"{start}, {slot} slots before the present one"
        raise InputError("start", found, f"fewer than {job.deadline}, the job's deadline")


def _spent(held: tuple[SpotAllocation, ...], seen: SpotMarket, start: int) -> float:
    prices = seen.price[start : start + len(held)]
    return sum(
        one.on_demand * seen.on_demand_price + one.spot * float(price)
        for one, price in zip(held, prices, strict=True)
    )


def _quantiles(values: Floats, room: float, limit: float) -> tuple[float, float]:
    """Return p50 and p90 of values that are as likely, p90 with room up to the limit."""
    p50, p90 = np.quantile(values, (0.5, 0.9), method="hazen").tolist()
    return p50, min(p50 + room * (p90 - p50), max(float(values.max()), limit))
