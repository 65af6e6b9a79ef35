"""Forecasts what a job with a loss target will cost, from the losses of similar jobs."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from auctune.domain import Money, round_money
from auctune.service.zones.core.job import Phase
from auctune.service.zones.core.metered import Estimate
from auctune.service.zones.timeshare.job import (
    MIN_POINTS,
    CompletedJob,
    Features,
    LossCurve,
    TimeshareJob,
)
from auctune.service.zones.timeshare.state import TimeshareState
from auctune.timeshare.estimators.mixture import Mixture


@dataclass(frozen=True, slots=True)
class CompetingJob:
    """A job that shares the pool.

    Attributes:
        deadline_unit: unit by whose beginning it must finish.
        curve: its losses so far.
        money: maximum remaining cost.
    """

    deadline_unit: int
    target_loss: float
    curve: LossCurve
    money: Money


@dataclass(frozen=True, slots=True)
class ForecastData:
    """Copy of what a zone knows at one time: jobs with a loss curve, and rivals in the pool."""

    history: tuple[CompletedJob, ...]
    rivals: tuple[CompetingJob, ...]


def forecast_data(state: TimeshareState) -> ForecastData:
    """Return what a zone knows now."""
    at_work = [job for job in state.jobs.values() if job.phase in (Phase.PLANNED, Phase.TRAINING)]
    open_ = (
        CompletedJob(job.id, job.owner, Features.of(job.training, job.size), _copy(job.curve))
        for job in state.jobs.values()
        if len(job.curve.points) >= MIN_POINTS
    )
    return ForecastData((*state.past, *open_), tuple(_rival(job) for job in at_work))


def _rival(job: TimeshareJob) -> CompetingJob:
    return CompetingJob(job.deadline_unit, job.target_loss, _copy(job.curve), job.meter.remaining)


def _copy(curve: LossCurve) -> LossCurve:
    return LossCurve(list(curve.points))


# Each job in the history yields the batches that it needed to that loss: as observed, or as the
# mixture (auctune.timeshare.estimators.mixture) predicts from its curve, with deciles. Its seconds
# per batch are scaled by tokens per batch. Its weight is e^-d, where d is the sum of the
# differences of the logarithms of rows, mean tokens, learning rate, rank and batch size; jobs of
# another method, or that start from an adapter where this one does not, have none. All jobs of
# another owner together weigh at most as much as one job, so that no owner can decide the
# forecasts of others.
#
# The time that the pool has for the job is what remains until its deadline after the predicted
# needs of jobs that are due earlier, as far as their caps pay for them, but at least an equal
# share. The job succeeds if its need fits into that time and its cap.
#
# One synthetic job with weight 1 is added as a prior: with probability 0.5 it succeeds, in half of
# the available time; otherwise it uses all of it. A zone without history thus forecasts 0.5.

PRIOR_SUCCESS = 0.5
"""Success probability of the synthetic job."""


@dataclass(frozen=True, slots=True)
class ForecastRequest:
    """A job whose cost is to be forecast.

    Attributes:
        cap: maximum charge; None: no limit.
        first_unit: first unit in which it can run.
        deadline_unit: unit by whose beginning it must finish; later than `first_unit`.
    """

    owner: str
    features: Features
    target_loss: float
    cap: Money | None
    first_unit: int
    deadline_unit: int


@dataclass(frozen=True, slots=True)
class PoolPricing:
    """Price of a second of a pool, and its units; unit 0 begins at `epoch`."""

    price_per_second: Money
    epoch: float
    unit_seconds: float

    def begins(self, unit: float) -> float:
        return self.epoch + unit * self.unit_seconds


@dataclass(frozen=True, slots=True)
class _Scenario:
    """A possible outcome: its weight, the seconds of the pool that it takes, its last unit."""

    weight: float
    seconds: float
    finish: float
    succeeds: bool


def forecast(question: ForecastRequest, terms: PoolPricing, evidence: ForecastData) -> Estimate:
    """Forecast the cost and finish of a job; takes milliseconds per curve."""
    units = question.deadline_unit - question.first_unit
    room = _available_seconds(question, terms, evidence.rivals)
    limit = room
    if question.cap is not None and terms.price_per_second:
        limit = min(limit, float(question.cap / terms.price_per_second))
    end = float(question.deadline_unit)

    def case(weight: float, need: float) -> _Scenario:
        succeeds = need <= limit
        finish = question.first_unit + units * need / room if succeeds else end
        return _Scenario(weight, min(need, limit), finish, succeeds)

    cases = [case(PRIOR_SUCCESS, limit / 2), case(1 - PRIOR_SUCCESS, math.inf)]
    cases += (case(weight, need) for weight, need in _demand(question, evidence))
    total = math.fsum(one.weight for one in cases)
    chance = math.fsum(one.weight for one in cases if one.succeeds) / total
    mean = math.fsum(one.weight * one.seconds for one in cases) / total
    price = float(terms.price_per_second)
    most = round_money(price * _quantile([(c.seconds, c.weight) for c in cases], 0.9))
    finishes = [(c.finish, c.weight) for c in cases]
    return Estimate(
        expected_cost=_capped(round_money(price * mean), question.cap),
        p90_cost=_capped(most, question.cap),
        finish=terms.begins(_quantile(finishes, 0.5)),
        finish_p90=terms.begins(_quantile(finishes, 0.9)),
        risk=1 - chance,
        price_per_pool_second=terms.price_per_second,
        success_probability=chance,
    )


def _capped(cost: Money, cap: Money | None) -> Money:
    return cost if cap is None else min(cost, cap)


def _demand(question: ForecastRequest, evidence: ForecastData) -> Iterator[tuple[float, float]]:
    """Yield weights and seconds of the pool that similar jobs would need for the target."""
    weights = [math.exp(-question.features.distance(seen.features)) for seen in evidence.history]
    of_owner: dict[str, float] = {}
    for seen, weight in zip(evidence.history, weights, strict=True):
        of_owner[seen.owner] = of_owner.get(seen.owner, 0.0) + weight
    for seen, weight in zip(evidence.history, weights, strict=True):
        if not weight:
            continue
        if seen.owner != question.owner:
            weight /= max(1.0, of_owner[seen.owner])
        pace = seen.curve.seconds / seen.curve.batches
        pace *= question.features.batch_tokens / seen.features.batch_tokens
        low, middle, high = batches_to_target(seen.curve, question.target_loss)
        for part, batches in ((0.25, low), (0.5, middle), (0.25, high)):
            yield part * weight, pace * batches


def batches_to_target(curve: LossCurve, target: float) -> tuple[float, float, float]:
    """Return the batches from the start to a loss: a low decile, the median, a high decile."""
    run = Mixture().start()
    for batches, loss, _ in curve.points:
        if loss <= target:
            return (float(batches),) * 3
        run.observe(float(batches), loss)
    need, done = run.need(target), float(curve.batches)
    return done + need.low, done + need.batches, done + need.high


def _available_seconds(
    question: ForecastRequest, terms: PoolPricing, rivals: Sequence[CompetingJob]
) -> float:
    """Return the seconds that the pool has for a job until its deadline."""
    whole = (question.deadline_unit - question.first_unit) * terms.unit_seconds
    taken = 0.0
    for rival in rivals:
        if rival.deadline_unit <= question.deadline_unit:
            left = max(0, rival.deadline_unit - question.first_unit) * terms.unit_seconds
            to_come = _expected_seconds(rival, left, whole / (len(rivals) + 1))
            if terms.price_per_second:
                to_come = min(to_come, float(rival.money / terms.price_per_second))
            taken += to_come
    return max(whole - taken, whole / (len(rivals) + 1))


def _expected_seconds(rival: CompetingJob, left: float, even: float) -> float:
    """Return the seconds that a rival will use; a rival with a hopeless target gets none."""
    curve = rival.curve
    if len(curve.points) < MIN_POINTS:
        return min(left, even)
    _, batches, _ = batches_to_target(curve, rival.target_loss)
    if math.isinf(batches):
        return 0.0
    return min(left, (batches - curve.batches) * curve.seconds / curve.batches)


def _quantile(values: Sequence[tuple[float, float]], level: float) -> float:
    """Return the least value at or below which a share `level` of all weight lies."""
    total = math.fsum(weight for _, weight in values)
    so_far = 0.0
    for value, weight in sorted(values):
        so_far += weight
        if so_far >= level * total - 1e-12:
            return value
    raise AssertionError("no weight")
