"""From a request to a timeshare zone's answer: files are looked at, an estimate is made.

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
    max_cost,
    request_record,
    required_cap,
    validate_amounts,
)
from auctune.service.jobs.training import Defaults, Training, resolve_training
from auctune.service.zones.clock import SlotClock
from auctune.service.zones.desk import Desk
from auctune.service.zones.docket import Docket
from auctune.service.zones.job_row import JobRow
from auctune.service.zones.metered.acceptance import accepted_terms, why_worse
from auctune.service.zones.metered.estimate import Estimate, EstimateOffer
from auctune.service.zones.offer import Alternatives, Priced
from auctune.service.zones.timeshare.asked import Asked, Estimated
from auctune.service.zones.timeshare.evidence import evidence_of
from auctune.service.zones.timeshare.forecast import Question, Terms, forecast
from auctune.service.zones.timeshare.past_job import Features
from auctune.service.zones.timeshare.zone import TimeshareZone


@dataclass(frozen=True, slots=True)
class Goal:
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


class Taking:
    """Takes jobs for one zone.

    Args:
        desk: decides.
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
        desk: Desk[TimeshareZone],
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
        self._desk, self._clock, self._num_slots, self._price = desk, clock, num_slots, price
        self._defaults, self._files, self._turns = defaults, files, turns
        self._quotes, self._profile, self._room_gb = quotes, profile, room_gb
        self.pending_jobs = Docket(desk, turns, self._check_there, self._received)

    async def preload(self, file: FileRecord) -> bool:
        """Look at a new upload; see `AnswersRequests.look_at`."""
        return await self._files.preload(file, self._defaults.length)

    async def quote(self, who: Principal, request: JobRequest) -> Priced:
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
        return Priced(training, goal.deadline, EstimateOffer(estimate, cap), notes)

    async def accept(
        self,
        job: str,
        who: Principal,
        accepted: Acceptance,
        quote: Quote,
        reply: IdempotencyKey | None,
    ) -> JobRow:
        """The job of an estimate that was shown.

        Raises:
            InputError: if it is of another job, or no time is left.
            QuoteChangedError: if it is likely to come to more than was shown, or not to be done.
        """
        request, cap = accepted_terms(accepted, quote)
        training, target = quote.training, quote.request.market.target_loss
        assert target is not None
        unit = self._deadline_unit(quote.deadline)
        goal = Goal(target, quote.deadline, unit, max_cost(quote.request))
        size = (await self._files.appraise(training, who.user)).size
        estimate, _ = await self._estimate(who.user, training, size, goal)
        why = why_worse(quote, estimate)
        if why is not None:
            offer = EstimateOffer(estimate, goal.cap)
            again = Priced(training, quote.deadline, offer, quote.notes)
            raise QuoteChangedError(why, self._quotes.replace(quote, again))
        goal = replace(goal, cap=self._paying(cap))
        shown = self._shown(request, who, goal, quote.alternatives)
        asked = await self._asked(job, who.user, training, size, goal, shown)
        asked = replace(asked, reply=reply)
        return await self.pending_jobs.decide_in_turn(asked, lambda zone: zone.decide(asked))

    async def preview(
        self, who: Principal, request: JobRequest, alternatives: Alternatives
    ) -> JobRow:
        """The job as it would be decided; nothing happens.

        Raises:
            InputError: if it is no job that could be decided on.
        """
        goal = self._capped_goal(request)
        training = self._training(request)
        size = (await self._files.appraise(training, who.user)).size
        shown = self._shown(request, who, goal, alternatives)
        asked = await self._asked(new_id("ftjob"), who.user, training, size, goal, shown)
        return await self._desk.call(lambda zone: zone.preview(asked))

    async def submit(
        self,
        job: str,
        who: Principal,
        request: JobRequest,
        reply: IdempotencyKey | None,
        alternatives: Alternatives,
    ) -> JobRow:
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
    ) -> Asked:
        size = (await self._files.appraise(training, owner)).size
        deadline = request["deadline"]
        unit = self._deadline_unit(deadline)
        goal = Goal(request["target_loss"], deadline, unit, Money(request["max_cost"]))
        return await self._asked(job, owner, training, size, goal, request)

    def _check_there(self, asked: Asked) -> None:
        self._files.ensure_not_deleted(asked.training)

    async def _asked(
        self,
        job: str,
        owner: str,
        training: Training,
        size: DataSize,
        goal: Goal,
        shown: dict[str, Any],
    ) -> Asked:
        estimate, estimated = await self._estimate(owner, training, size, goal)
        assert goal.cap is not None
        return Asked(
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
        self, owner: str, training: Training, size: DataSize, goal: Goal
    ) -> tuple[Estimate, Estimated]:
        """Away from the desk and the loop: it may take a while.

        Raises:
            InputError: if the job would hold the pool up.
        """
        check_batch(training, size)
        check_adapter(training, self._profile, self._room_gb)
        check_step(training, size, self._profile, self._clock.slot_seconds)
        seq, evidence = await self._desk.call(
            lambda zone: (zone.state.seq, evidence_of(zone.state))
        )
        question = Question(
            owner=owner,
            features=Features.of(training, size),
            target_loss=goal.target_loss,
            cap=goal.cap,
            first_unit=self._clock.slot() + 1,
            deadline_unit=goal.deadline_unit,
        )
        terms = Terms(self._price, self._clock.epoch, self._clock.slot_seconds)
        found = await asyncio.to_thread(forecast, question, terms, evidence)
        return found, Estimated(seq, question.first_unit)

    def _goal(self, request: JobRequest, cap: Money | None) -> Goal:
        target = request.market.target_loss
        if target is None:
            raise InputError("market.target_loss", "is missing", "a loss that is to be reached")
        deadline = deadline_of(request, self._clock.now())
        return Goal(target, deadline, self._deadline_unit(deadline), cap)

    def _capped_goal(self, request: JobRequest) -> Goal:
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
        self, request: JobRequest, who: Principal, goal: Goal, alternatives: Alternatives
    ) -> dict[str, Any]:
        shown = request_record(request, who, None, goal.deadline, alternatives)
        return {**shown, "target_loss": goal.target_loss, "max_cost": str(goal.cap)}
