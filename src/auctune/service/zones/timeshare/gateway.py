"""Request side of a timeshare zone: estimates and bids.

Where the files were looked at before, the decision is the answer. Where they were not, the job is
on record as `validating_files` first, and decided on as soon as they are.
"""

import asyncio
from dataclasses import dataclass, replace
from typing import Any

from auctune.device_profile import Profile
from auctune.domain import InputError, Money
from auctune.domain.data_size import DataSize
from auctune.service.accounts.keys import Principal
from auctune.service.config.zone import TIMESHARE
from auctune.service.files.repository import FileRecord
from auctune.service.identifiers import new_id
from auctune.service.jobs.budget_turns import BudgetTurns
from auctune.service.jobs.datasets import TrainingData
from auctune.service.jobs.device_limits import check_adapter, check_batch, check_step
from auctune.service.jobs.idempotency import IdempotencyKey
from auctune.service.jobs.quotes import Quote, QuoteChangedError, QuoteStore
from auctune.service.jobs.request import Acceptance, JobRequest
from auctune.service.jobs.terms import (
    deadline_of,
    has_deadline,
    max_cost,
    reject_unsupported,
    request_record,
    required_cap,
    validate_amounts,
)
from auctune.service.jobs.training import Defaults, Training, resolve_training
from auctune.service.zones.core.actor import ZoneActor
from auctune.service.zones.core.clock import SlotClock
from auctune.service.zones.core.gateway import PendingJobs, ZoneGateway
from auctune.service.zones.core.metered import (
    Estimate,
    EstimateOffer,
    accepted_request,
    degradation_reason,
)
from auctune.service.zones.core.offers import Alternatives, ZoneQuote
from auctune.service.zones.core.read_model import JobReadModel
from auctune.service.zones.timeshare.bid import EstimateInputs, TimeshareBid
from auctune.service.zones.timeshare.forecast import (
    ForecastRequest,
    PoolPricing,
    forecast,
    forecast_data,
)
from auctune.service.zones.timeshare.job import Features
from auctune.service.zones.timeshare.zone import TimeshareZone


@dataclass(frozen=True, slots=True)
class Target:
    """What a request wants: a loss, by a unit, for at most so much.

    Attributes:
        target_loss: to be reached.
        deadline: unix time.
        deadline_unit: the last unit that begins by then.
        cap: the most that is charged; none: it does not say.
    """

    target_loss: float
    deadline: float
    deadline_unit: int
    cap: Money | None


class TimeshareBids:
    """Takes jobs for one zone.

    Args:
        actor: decides.
        clock: its slots.
        num_slots: that it looks ahead.
        price: of a second of the pool.
        defaults: what is chosen where requests do not.
        files: of jobs.
        turns: those of one budget pass one after the other.
        quotes: that were shown.
        profile: of the pool's device.
        room_gb: memory for adapters on it.
    """

    def __init__(
        self,
        actor: ZoneActor[TimeshareZone],
        clock: SlotClock,
        num_slots: int,
        price: Money,
        defaults: Defaults,
        files: TrainingData,
        turns: BudgetTurns,
        quotes: QuoteStore,
        profile: Profile,
        room_gb: float,
    ) -> None:
        self._actor, self._clock, self._num_slots, self._price = actor, clock, num_slots, price
        self._defaults, self._files, self._turns = defaults, files, turns
        self._quotes, self._profile, self._room_gb = quotes, profile, room_gb
        self.pending_jobs = PendingJobs(actor, turns, self._check_there, self._received)

    async def preload(self, file: FileRecord) -> bool:
        """Look at a new upload; see `AnswersRequests.preload`."""
        return await self._files.preload(file, self._defaults.length)

    async def quote(self, who: Principal, request: JobRequest) -> ZoneQuote:
        """What a job is likely to come to.

        Raises:
            InputError: if it is no job that could be decided on; a cap may be left out.
        """
        validate_amounts(request)
        cap = max_cost(request)
        goal = self._goal(request, cap)
        training = self._training(request)
        size = (await self._files.appraise(training, who.user)).size
        estimate, _ = await self._estimate(who.user, training, size, goal)
        notes = size.notes(training.max_length)
        return ZoneQuote(training, goal.deadline, EstimateOffer(estimate, cap), notes)

    async def accept(
        self,
        job: str,
        who: Principal,
        accepted: Acceptance,
        quote: Quote,
        reply: IdempotencyKey | None,
    ) -> JobReadModel:
        """The job of an estimate that was shown.

        Raises:
            InputError: if it is of another job, or no time is left.
            QuoteChangedError: if it is likely to come to more than was shown, or not to be done.
        """
        request, cap = accepted_request(accepted, quote)
        training, target = quote.training, quote.request.market.target_loss
        assert target is not None
        unit = self._deadline_unit(quote.deadline)
        goal = Target(target, quote.deadline, unit, max_cost(quote.request))
        size = (await self._files.appraise(training, who.user)).size
        estimate, _ = await self._estimate(who.user, training, size, goal)
        why = degradation_reason(quote, estimate)
        if why is not None:
            offer = EstimateOffer(estimate, goal.cap)
            again = ZoneQuote(training, quote.deadline, offer, quote.notes)
            raise QuoteChangedError(why, self._quotes.replace(quote, again))
        goal = replace(goal, cap=self._paying(cap))
        shown = self._shown(request, who, goal, quote.alternatives)
        asked = await self._asked(job, who.user, training, size, goal, shown)
        asked = replace(asked, reply=reply)
        return await self.pending_jobs.decide_in_turn(asked, lambda zone: zone.decide(asked))

    async def preview(
        self, who: Principal, request: JobRequest, alternatives: Alternatives
    ) -> JobReadModel:
        """The job as it would be decided; nothing happens.

        Raises:
            InputError: if it is no job that could be decided on.
        """
        goal = self._capped_goal(request)
        training = self._training(request)
        size = (await self._files.appraise(training, who.user)).size
        shown = self._shown(request, who, goal, alternatives)
        asked = await self._asked(new_id("ftjob"), who.user, training, size, goal, shown)
        return await self._actor.call(lambda zone: zone.preview(asked))

    async def submit(
        self,
        job: str,
        who: Principal,
        request: JobRequest,
        reply: IdempotencyKey | None,
        alternatives: Alternatives,
    ) -> JobReadModel:
        """A job, as it stands once this is on record.

        Raises:
            InputError: if it is no job that could be decided on.
        """
        goal = self._capped_goal(request)
        training = self._training(request)
        size = await self._files.cached_size(training, who.user)
        shown = self._shown(request, who, goal, alternatives)
        if size is None:
            return await self.pending_jobs.receive(job, who.user, training, shown, reply)
        asked = await self._asked(job, who.user, training, size, goal, shown)
        asked = replace(asked, reply=reply)
        return await self.pending_jobs.decide_in_turn(asked, lambda zone: zone.decide(asked))

    async def _received(
        self, job: str, owner: str, training: Training, request: dict[str, Any]
    ) -> TimeshareBid:
        size = (await self._files.appraise(training, owner)).size
        deadline = request["deadline"]
        unit = self._deadline_unit(deadline)
        goal = Target(request["target_loss"], deadline, unit, Money(request["max_cost"]))
        return await self._asked(job, owner, training, size, goal, request)

    def _check_there(self, asked: TimeshareBid) -> None:
        self._files.ensure_not_deleted(asked.training)

    async def _asked(
        self,
        job: str,
        owner: str,
        training: Training,
        size: DataSize,
        goal: Target,
        shown: dict[str, Any],
    ) -> TimeshareBid:
        estimate, estimated = await self._estimate(owner, training, size, goal)
        assert goal.cap is not None
        return TimeshareBid(
            job=job,
            owner=owner,
            training=training,
            size=size,
            target_loss=goal.target_loss,
            cap=goal.cap,
            deadline_unit=goal.deadline_unit,
            estimate=estimate,
            estimated=estimated,
            request=shown,
            left=lambda: self._turns.left(owner),
        )

    async def _estimate(
        self, owner: str, training: Training, size: DataSize, goal: Target
    ) -> tuple[Estimate, EstimateInputs]:
        """Away from the actor and the loop: it may take a while.

        Raises:
            InputError: if the job would hold the pool up.
        """
        check_batch(training, size)
        check_adapter(training, self._profile, self._room_gb)
        check_step(training, size, self._profile, self._clock.slot_seconds)
        seq, evidence = await self._actor.call(
            lambda zone: (zone.state.seq, forecast_data(zone.state))
        )
        question = ForecastRequest(
            owner=owner,
            features=Features.of(training, size),
            target_loss=goal.target_loss,
            cap=goal.cap,
            first_unit=self._clock.slot() + 1,
            deadline_unit=goal.deadline_unit,
        )
        terms = PoolPricing(self._price, self._clock.epoch, self._clock.slot_seconds)
        found = await asyncio.to_thread(forecast, question, terms, evidence)
        return found, EstimateInputs(seq, question.first_unit)

    def _goal(self, request: JobRequest, cap: Money | None) -> Target:
        target = request.market.target_loss
        if target is None:
            raise InputError("market.target_loss", "is missing", "a loss that is to be reached")
        deadline = deadline_of(request, self._clock.now())
        return Target(target, deadline, self._deadline_unit(deadline), cap)

    def _capped_goal(self, request: JobRequest) -> Target:
        goal = self._goal(request, None)
        return replace(goal, cap=self._cap(request))

    def _deadline_unit(self, deadline: float) -> int:
        """The last unit that begins by a deadline.

        Raises:
            InputError: if there is no whole unit before it, or it is beyond the horizon.
        """
        unit, now = self._clock.last_slot_by(deadline) + 1, self._clock.slot()
        if unit <= now + 1:
            expected = f"a whole slot of {self._clock.slot_seconds:g} s at least before it"
            raise InputError("market.deadline", "is too soon", expected)
        if unit > now + self._num_slots:
            expected = f"at most {self._num_slots} slots from now"
            raise InputError("market.deadline", "is too far away", expected)
        return unit

    def _cap(self, request: JobRequest) -> Money:
        return self._paying(required_cap(request))

    def _paying(self, cap: Money) -> Money:
        if cap == 0 and self._price:
            raise InputError("market.max_cost", "is nothing", "an amount of money > 0")
        return cap

    def _training(self, request: JobRequest) -> Training:
        # How many steps there will be nobody knows, so the rate can be led by none.
        return replace(resolve_training(request, self._defaults), schedule="constant")

    def _shown(
        self, request: JobRequest, who: Principal, goal: Target, alternatives: Alternatives
    ) -> dict[str, Any]:
        shown = request_record(request, who, None, goal.deadline, alternatives)
        return {**shown, "target_loss": goal.target_loss, "max_cost": str(goal.cap)}


# The gateway.

# Terms of other kinds of zones.
_FOREIGN = ("sites",)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeshareGateway(ZoneGateway[TimeshareZone, TimeshareBids]):
    """One zone.

    Attributes:
        base: name of the base model that it trains.
        price: of a second of the pool.
        clock: its slots.
        num_slots: how many slots from now on it looks ahead.
    """

    base: str
    price: Money
    clock: SlotClock
    num_slots: int

    @property
    def kind(self) -> str:
        """Of which kind it is."""
        return TIMESHARE

    @property
    def num_nodes(self) -> int:
        """The pool."""
        return 1

    def unsupported_reason(self, request: JobRequest) -> str | None:
        """Why it cannot take a job, by what the request says alone; none: it may."""
        if request.market.target_loss is None:
            return "needs market.target_loss"
        if not has_deadline(request):
            return "needs market.deadline"
        found = _unknown(request)
        return None if found is None else f"trains to a loss, and does not support {found}"

    def _state_of(self, zone: TimeshareZone) -> dict[str, Any]:
        state, clock = zone.state, zone.clock
        return {
            "slot_seconds": clock.slot_seconds,
            "jobs": [
                {
                    "job": job.id,
                    "user": job.owner,
                    "state": job.phase.value,
                    "target_loss": job.target_loss,
                    "best_loss": job.best,
                    "share": job.share,
                    "finish": None
                    if job.finish is None
                    else clock.slot_start(0) + job.finish * clock.slot_seconds,
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

    def _check(self, request: JobRequest) -> None:
        reject_unsupported(request, self.name, TIMESHARE, *_FOREIGN)
        found = _unknown(request)
        if found is not None:
            expected = (
                f"none: zone {self.name} ({TIMESHARE}) trains to a loss and does not support it"
            )
            raise InputError(found, "is given", expected)


def _unknown(request: JobRequest) -> str | None:
    """The first thing that a request says and that has no meaning here, as errors name it."""
    said = {
        "market.sites": request.market.sites is not None,
        "market.repair": request.market.repair,
        "validation_file": request.validation_file is not None,
        "market.lora.patience": request.market.lora.patience > 0,
        "hyperparameters.n_epochs": request.hyperparameters_used.n_epochs != "auto",
    }
    return next((name for name, is_said in said.items() if is_said), None)
