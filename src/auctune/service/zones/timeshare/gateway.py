"""Request side of a timeshare zone: jobs with a loss target that share a pool.

What such a job will cost is forecast from the losses of similar jobs.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from auctune.domain import InputError, Money, round_money
from auctune.domain.job_words import loss_text, state_word
from auctune.engine.unix_time import SlotClock
from auctune.files.device_profile import Profile
from auctune.service.accounts.registry import Principal
from auctune.service.charts.renderer import ChartSpec
from auctune.service.config.zone import TIMESHARE
from auctune.service.datasets.repairer import DatasetQuote
from auctune.service.fair_queue import in_place
from auctune.service.jobs.quotes import Alternatives
from auctune.service.jobs.request import JobRequest
from auctune.service.jobs.terms import DEADLINE, JobValue, Terms, request_record
from auctune.service.jobs.training import (
    Submission,
    Training,
    check_adapter,
    check_batch,
    check_step,
)
from auctune.service.zones.core.gateway import EstimateGateway, GatewayContext, cap_of
from auctune.service.zones.core.job import Estimate, Phase
from auctune.service.zones.core.sections import (
    MAX_CHART_SLOTS,
    SLOT_COLUMNS,
    Column,
    JobName,
    Section,
    ZoneView,
)
from auctune.service.zones.timeshare.state import (
    MIN_POINTS,
    CompletedJob,
    EstimateInputs,
    Features,
    LossCurve,
    TimeshareBid,
    TimeshareJob,
    TimeshareState,
)
from auctune.service.zones.timeshare.zone import TimeshareZone
from auctune.timeshare.estimators import SingleThread
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
    """Copy of what a zone knows at one time: jobs with a loss curve, and competing jobs."""

    history: tuple[CompletedJob, ...]
    competing: tuple[CompetingJob, ...]


def forecast_data(state: TimeshareState) -> ForecastData:
    """Return what a zone knows now."""
    at_work = [job for job in state.jobs.values() if job.phase in (Phase.PLANNED, Phase.TRAINING)]
    open_ = (
        CompletedJob(job.id, job.owner, Features.of(job.training, job.size), _copy(job.curve))
        for job in state.jobs.values()
        if len(job.curve.points) >= MIN_POINTS
    )
    return ForecastData((*state.past, *open_), tuple(_competing_job(job) for job in at_work))


def _competing_job(job: TimeshareJob) -> CompetingJob:
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
    room = _available_seconds(question, terms, evidence.competing)
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
    run = SingleThread(Mixture())
    for batches, loss, _ in curve.points:
        if loss <= target:
            return (float(batches),) * 3
        run.observe(float(batches), loss)
    need, done = run.need(target), float(curve.batches)
    return done + need.low, done + need.batches, done + need.high


def _available_seconds(
    question: ForecastRequest, terms: PoolPricing, competing: Sequence[CompetingJob]
) -> float:
    """Return the seconds that the pool has for a job until its deadline."""
    whole = (question.deadline_unit - question.first_unit) * terms.unit_seconds
    taken = 0.0
    for other in competing:
        if other.deadline_unit <= question.deadline_unit:
            remaining = max(0, other.deadline_unit - question.first_unit) * terms.unit_seconds
            to_come = _expected_seconds(other, remaining, whole / (len(competing) + 1))
            if terms.price_per_second:
                to_come = min(to_come, float(other.money / terms.price_per_second))
            taken += to_come
    return max(whole - taken, whole / (len(competing) + 1))


def _expected_seconds(other: CompetingJob, remaining: float, even_share: float) -> float:
    """Return the seconds that a competing job will use; one with a hopeless target gets none."""
    curve = other.curve
    if len(curve.points) < MIN_POINTS:
        return min(remaining, even_share)
    _, batches, _ = batches_to_target(curve, other.target_loss)
    if math.isinf(batches):
        return 0.0
    return min(remaining, (batches - curve.batches) * curve.seconds / curve.batches)


def _quantile(values: Sequence[tuple[float, float]], level: float) -> float:
    """Return the least value at or below which a share `level` of all weight lies."""
    total = math.fsum(weight for _, weight in values)
    so_far = 0.0
    for value, weight in sorted(values):
        so_far += weight
        if so_far >= level * total - 1e-12:
            return value
    raise AssertionError("no weight")


class TimeshareGateway(EstimateGateway[TimeshareZone, TimeshareBid, EstimateInputs]):
    """Gateway of a timeshare zone.

    Args:
        context: dependencies that all kinds share.
        base: name of the base model that the zone trains.
        price: of a second of the pool.
        profile: of the pool's device.
        room_gb: memory for adapters on it.
    """

    kind = TIMESHARE
    terms = Terms(
        required={
            "market.target_loss": "the loss to reach",
            "market.deadline": DEADLINE,
        },
        unsupported=(
            "market.sites",
            "market.repair",
            "validation_file",
            "market.lora.patience",
            "market.lora.warmup_ratio",
            "hyperparameters.n_epochs",
        ),
        reason="trains to a loss",
    )

    def __init__(
        self,
        context: GatewayContext[TimeshareZone, DatasetQuote],
        base: str,
        price: Money,
        profile: Profile,
        room_gb: float,
    ) -> None:
        super().__init__(context, base, num_nodes=1)
        self.price = price
        self._profile = profile
        self._room_gb = room_gb

    def _training(self, request: JobRequest) -> Training:
        # The number of steps is unknown, so the learning rate cannot depend on it.
        return replace(super()._training(request), schedule="constant")

    def _valued_record(
        self, who: Principal, request: JobRequest, value: JobValue, alternatives: Alternatives
    ) -> dict[str, Any]:
        self._deadline_unit(value.deadline)
        record = request_record(request, who, None, value.deadline, alternatives)
        return {**record, "target_loss": request.market.target_loss}

    def _check_cap(self, cap: Money, quoted: Estimate | None) -> None:
        if cap == 0 and self.price:
            raise InputError("market.max_cost", "is zero", "an amount of money > 0")

    async def _estimate(
        self, submission: Submission, data: DatasetQuote
    ) -> tuple[Estimate, EstimateInputs]:
        training, record, clock = submission.training, submission.record, self.clock
        _check_target(training, record["target_loss"])
        deadline_unit = self._deadline_unit(record["deadline"])
        check_batch(training, data.size)
        check_adapter(training, self._profile, self._room_gb)
        check_step(training, data.size, self._profile, clock.slot_seconds)
        terms = PoolPricing(self.price, clock.epoch, clock.slot_seconds)
        # Pending jobs are limited by the number of open jobs.
        is_limited = not submission.is_pending
        async with self._quoting.place(submission.owner, is_limited=is_limited):
            # A copy of what the pool knows, once it is this user's turn.
            seq, evidence = await self.actor.call(
                lambda zone: (zone.state.seq, forecast_data(zone.state))
            )
            request = ForecastRequest(
                owner=submission.owner,
                features=Features.of(training, data.size),
                target_loss=record["target_loss"],
                cap=cap_of(record),
                first_unit=clock.slot() + 1,
                deadline_unit=deadline_unit,
            )
            estimate = await in_place(forecast, request, terms, evidence)
        return estimate, EstimateInputs(seq, request.first_unit)

    def _estimated_bid(
        self,
        submission: Submission,
        data: DatasetQuote,
        estimate: Estimate,
        inputs: EstimateInputs,
    ) -> TimeshareBid:
        record, cap = submission.record, cap_of(submission.record)
        assert cap is not None
        return TimeshareBid(
            **self._bid_fields(submission),
            size=data.size,
            target_loss=record["target_loss"],
            cap=cap,
            # Checked by the estimate, during which slots may have begun.
            deadline_unit=self.clock.last_slot_by(record["deadline"]) + 1,
            estimate=estimate,
            estimate_inputs=inputs,
        )

    def _deadline_unit(self, deadline: float) -> int:
        """Return the last unit that begins by a deadline.

        Raises:
            InputError: if there is no whole unit before it, or it is beyond the horizon.
        """
        unit, now = self.clock.last_slot_by(deadline) + 1, self.clock.slot()
        if unit <= now + 1:
            expected = f"at least one whole slot of {self.clock.slot_seconds:g} s before it"
            raise InputError("market.deadline", "is too soon", expected)
        if unit > now + self.num_slots:
            expected = f"at most {self.num_slots} slots from now"
            raise InputError("market.deadline", "is too far away", expected)
        return unit

    def _view(self, zone: TimeshareZone, job_name: JobName) -> ZoneView:
        state, clock = zone.state, zone.clock
        rows = tuple(
            (
                job_name(job.id),
                job.owner,
                state_word(job.phase.value),
                None if job.best is None else loss_text(job.best, job.target_loss),
                f"{job.target_loss:g}",
                job.share,
                str(job.cost),
                None if job.finish is None else clock.epoch + job.finish * clock.slot_seconds,
                clock.slot_start(job.deadline_unit),
                job.verdict,
            )
            for job in state.jobs.values()
        )
        columns = (
            *map(Column, ("job", "user", "state", "best loss", "target")),
            Column("share", "share"),
            Column("cost"),
            Column("finish", "time"),
            Column("deadline", "time"),
            Column("forecast"),
        )
        jobs = Section("Jobs", "The jobs that share its pool.", columns, rows)
        return ZoneView((shares_section(state.units, clock, job_name), jobs))


def shares_section(
    units: Sequence[Mapping[str, Any]], clock: SlotClock, job_name: JobName
) -> Section:
    """Return the shares of a pool by job and quantum.

    Args:
        units: {unit, span, shares}, oldest first.
        clock: of the zone.
        job_name: labels of jobs.
    """
    units = [
        {**one, "shares": {job_name(job): share for job, share in one["shares"].items()}}
        for one in units
        if one["shares"]
    ]
    charts: tuple[ChartSpec, ...] = ()
    if shown := units[-MAX_CHART_SLOTS:]:
        first, newest = shown[0]["unit"], shown[-1]["shares"].items()
        data = {
            "slots": [{"slot": one["unit"] - first, "amounts": one["shares"]} for one in shown],
            "times": {"start": clock.slot_start(first), "seconds": clock.slot_seconds},
        }
        last = ", ".join(f"{job} {share:.0%}" for job, share in newest)
        charts = (ChartSpec("shares", data, f"Shares of the pool by slot; in the newest {last}"),)
    return Section(
        "Shares of the pool",
        "Share of each job by slot.",
        (*SLOT_COLUMNS, Column("span", "number", 2), Column("job"), Column("share", "share")),
        tuple(
            (one["unit"], clock.slot_start(one["unit"]), one["span"], job, share)
            for one in reversed(units)
            for job, share in one["shares"].items()
        ),
        charts,
    )


def _check_target(training: Training, target_loss: float) -> None:
    """Refuse a target that a job with preferences has met before it learns anything.

    Before the first step the adapter is its own reference: the loss of every pair is ln 2, that of
    every rating 1/2.
    """
    first = {"dpo": math.log(2), "kto": 0.5}.get(training.method, math.inf)
    if target_loss >= first:
        expected = f"below {first:.3f}, the loss of preferences before anything is learnt"
        raise InputError("market.target_loss", f"{target_loss:g}", expected)
