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
    """A job that is to share the pool.

    Attributes:
        deadline_unit: by whose beginning it must be done.
        target_loss: that it is to reach.
        curve: of its losses so far.
        money: that it may still cost.
    """

    deadline_unit: int
    target_loss: float
    curve: LossCurve
    money: Money


@dataclass(frozen=True, slots=True)
class ForecastData:
    """Nothing of it changes when the zone goes on.

    Attributes:
        seen: jobs whose losses say something of others, those that are open included.
        rivals: jobs that share the pool.
    """

    history: tuple[CompletedJob, ...]
    rivals: tuple[CompetingJob, ...]


def forecast_data(state: TimeshareState) -> ForecastData:
    """What a zone knows now."""
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


# The forecast, by the losses of similar jobs.
#
# Each job that the zone has seen says how many batches it needed to that loss: as it was seen, or
# as the mixture (auctune.timeshare.estimators.mixture) foretells it of its curve, with its
# deciles. A batch takes the seconds that its batches took, in proportion to tokens. It counts by
# e^-d, d the sum of the differences of the logarithms of rows, mean tokens, learning rate, rank
# and batch size. Jobs of another owner count as one job at most together, so that nobody's jobs
# decide what others are told.
#
# The pool has for the job what is left until its deadline when those that are due before have had
# what they are foretold to need, as far as their caps pay for it, but not less than an even part.
# The job succeeds if its need fits that, and its cap.
#
# One more job is made up and counts as one that is just alike: it succeeds as likely as not, with
# half of what the pool has for it, and uses all of it where it fails. So a zone that has seen
# nothing says 0.5, and bounds as wide as they are.

PRIOR_SUCCESS = 0.5
"""Probability of success of the made-up job."""


@dataclass(frozen=True, slots=True)
class ForecastRequest:
    """A job that somebody asks for.

    Attributes:
        owner: who asks.
        features: of the job.
        target_loss: that it is to reach.
        cap: the most that is charged; none: it does not say.
        first_unit: in which it can begin.
        deadline_unit: by whose beginning it must be done, later.
    """

    owner: str
    features: Features
    target_loss: float
    cap: Money | None
    first_unit: int
    deadline_unit: int


@dataclass(frozen=True, slots=True)
class PoolPricing:
    """What a zone sells.

    Attributes:
        price_per_second: of the pool.
        epoch, unit_seconds: of its units.
    """

    price_per_second: Money
    epoch: float
    unit_seconds: float

    def begins(self, unit: float) -> float:
        """Unix time at which a unit begins."""
        return self.epoch + unit * self.unit_seconds


@dataclass(frozen=True, slots=True)
class _Scenario:
    """One thing that may happen: how likely, how many seconds of the pool, until which unit."""

    weight: float
    seconds: float
    finish: float
    succeeds: bool


def forecast(question: ForecastRequest, terms: PoolPricing, evidence: ForecastData) -> Estimate:
    """What a job is likely to come to; takes milliseconds for each curve."""
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
    """Weights, and seconds of the pool that jobs like it would need for the target."""
    weights = [math.exp(-question.features.distance(seen.features)) for seen in evidence.history]
    of_owner: dict[str, float] = {}
    for seen, weight in zip(evidence.history, weights, strict=True):
        of_owner[seen.owner] = of_owner.get(seen.owner, 0.0) + weight
    for seen, weight in zip(evidence.history, weights, strict=True):
        if seen.owner != question.owner:
            weight /= max(1.0, of_owner[seen.owner])
        pace = seen.curve.seconds / seen.curve.batches
        pace *= question.features.batch_tokens / seen.features.batch_tokens
        low, middle, high = batches_to_target(seen.curve, question.target_loss)
        for part, batches in ((0.25, low), (0.5, middle), (0.25, high)):
            yield part * weight, pace * batches


def batches_to_target(curve: LossCurve, target: float) -> tuple[float, float, float]:
    """Batches from the start to a loss: a low decile, the middle, and a high one."""
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
    """Seconds that the pool has for a job until its deadline."""
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
    """Seconds that a rival will take of those left to it; what is out of reach gets none."""
    curve = rival.curve
    if len(curve.points) < MIN_POINTS:
        return min(left, even)
    _, batches, _ = batches_to_target(curve, rival.target_loss)
    if math.isinf(batches):
        return 0.0
    return min(left, (batches - curve.batches) * curve.seconds / curve.batches)


def _quantile(values: Sequence[tuple[float, float]], level: float) -> float:
    """The least value at or under which a share `level` of all weight lies."""
    total = math.fsum(weight for _, weight in values)
    so_far = 0.0
    for value, weight in sorted(values):
        so_far += weight
        if so_far >= level * total - 1e-12:
            return value
    raise AssertionError("no weight")
