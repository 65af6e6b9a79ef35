"""Request side of a timeshare zone: jobs with a loss target that share a pool."""

import math
from dataclasses import replace
from typing import Any

from auctune.device_profile import Profile
from auctune.domain import InputError, Money
from auctune.service.accounts.keys import Principal
from auctune.service.config.zone import TIMESHARE
from auctune.service.datasets.repairer import DatasetQuote
from auctune.service.fair_queue import in_place
from auctune.service.jobs.device_limits import check_adapter, check_batch, check_step
from auctune.service.jobs.offers import Alternatives
from auctune.service.jobs.request import JobRequest
from auctune.service.jobs.terms import DEADLINE, JobValue, Terms, request_record
from auctune.service.jobs.training import Submission, Training
from auctune.service.zones.core.gateway import EstimateGateway, GatewayContext, cap_of
from auctune.service.zones.core.metered import Estimate
from auctune.service.zones.timeshare.decision import EstimateInputs, TimeshareBid
from auctune.service.zones.timeshare.forecast import (
    ForecastRequest,
    PoolPricing,
    forecast,
    forecast_data,
)
from auctune.service.zones.timeshare.job import Features
from auctune.service.zones.timeshare.zone import TimeshareZone


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

    def _view(self, zone: TimeshareZone) -> dict[str, Any]:
        state, clock = zone.state, zone.clock

        def finish(unit: float | None) -> float | None:
            return None if unit is None else clock.slot_start(0) + unit * clock.slot_seconds

        return {
            "jobs": [
                {
                    "job": job.id,
                    "user": job.owner,
                    "state": job.phase.value,
                    "target_loss": job.target_loss,
                    "best_loss": job.best,
                    "share": job.share,
                    "finish": finish(job.finish),
                    "deadline": clock.slot_start(job.deadline_unit),
                    "verdict": job.verdict,
                    "cost": str(job.cost),
                }
                for job in state.jobs.values()
            ],
            "units": [
                {**unit, "begins_at": clock.slot_start(unit["unit"])} for unit in state.units
            ],
        }


def _check_target(training: Training, target_loss: float) -> None:
    """Refuse a target that a job with pairs has met before it learns anything.

    Before the first step the adapter is its own reference: the loss of every pair is ln 2.
    """
    if training.method == "dpo" and target_loss >= math.log(2):
        expected = f"below {math.log(2):.3f}, the loss of pairs before anything is learnt"
        raise InputError("market.target_loss", f"{target_loss:g}", expected)
