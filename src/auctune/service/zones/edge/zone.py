"""Commands of an edge zone: bids, quotes, slots, and the replanning of sold jobs.

Decisions change nothing, so that a replay decides with the same functions. Replanning, after a
pause, a missed slot or a lost site, never changes a payment.
"""

from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from auctune.domain import Money, Reason, round_money
from auctune.edge import (
    EdgeDecision,
    EdgeJob,
    EdgeMenuLine,
    EdgePlan,
    EdgeReplanned,
    Eris,
    SlotPlan,
    first_violation,
)
from auctune.edge.prices import cost_of
from auctune.engine.unix_time import SlotClock
from auctune.service.storage.queries import JobReadModel
from auctune.service.zones.core.events import JobNoted, SlotStarted
from auctune.service.zones.core.job import (
    MAX_SHORTFALL,
    SLOWER,
    TRAINED_LATER,
    GivenUp,
    Phase,
    SpeedEstimator,
)
from auctune.service.zones.core.zone import EventWriter, SlottedZone
from auctune.service.zones.edge.state import (
    EdgeBidDecision,
    EdgeDecided,
    EdgeJobState,
    EdgeModel,
    EdgePaused,
    EdgeResumed,
    PlanReleased,
    PlanReplaced,
    SiteDown,
    SiteUp,
)
from auctune.service.zones.edge.supply import EdgeBid, EdgeSupply, MenuRequest


@dataclass(frozen=True, slots=True)
class EdgeOutcome:
    """Decision on a bid or an accepted line.

    Attributes:
        decision: decision of the mechanism, or a rejection because of the budget.
        price: price of the plan, or of the cheapest plan by the deadline if the bid is rejected;
            None if there is no plan.
        earliest: slot by whose end the job could finish, if the deadline is too early, or None.
        budget_remaining: remaining budget of the owner, if the price exceeds it.
        line: finish of the accepted line; None for a bid.
    """

    decision: EdgeDecision
    price: Money | None = None
    earliest: int | None = None
    budget_remaining: Money | None = None
    line: int | None = None


def decide(eris: Eris, job: EdgeJob, last: int, slot: int, left: Money | None) -> EdgeOutcome:
    """Decide on a bid.

    Args:
        eris: the mechanism, which is not changed.
        job: the bid.
        last: the last slot that ends by its deadline.
        slot: the current slot.
        left: remaining budget of its owner; None: no limit.

    Raises:
        InputError: if the job does not fit the market.
    """
    found = eris.preview(job, slot)
    if found.plan is None:
        return _rejected(eris, found, job, last, slot)
    # The search checks its plans; what is booked is checked independently.
    broken = first_violation(job, found.plan, eris.ledger)
    assert broken is None, broken
    if left is not None and found.payment > left:
        return over_budget(job, found.payment, left)
    return EdgeOutcome(found, found.payment)


def accept_line(
    eris: Eris, job: EdgeJob, line: EdgeMenuLine, slot: int, left: Money | None
) -> EdgeOutcome | None:
    """Decide on a line of an earlier menu; return None if it is no longer available."""
    if left is not None and line.price > left:
        return over_budget(job, line.price, left, line.finish)
    found = eris.would_take(job, line, slot)
    return None if found is None else EdgeOutcome(found, line.price, line=line.finish)


def outcome_fields(found: EdgeOutcome) -> dict[str, Any]:
    """Return the fields of `EdgeDecided` that say what was decided."""
    decision = found.decision
    return {
        "decision": EdgeBidDecision(
            admitted=decision.admitted,
            reason=decision.reason,
            payment=decision.payment,
            price=found.price,
            value=decision.utility,
            surplus=decision.surplus,
            finish=decision.finish,
        ),
        "answer": decision,
        "line": found.line,
        "earliest": found.earliest,
        "budget_remaining": found.budget_remaining,
    }


def plan_remaining(
    eris: Eris, job: EdgeJobState, slot: int, rate: float | None = None
) -> EdgePlan | None:
    """Return a plan for the chunks of a job that no planned slot trains, or None.

    Args:
        eris: the mechanism, which is not changed.
        job: the job.
        slot: the current slot.
        rate: chunks that a worker passes through once in a slot, or None: as it was sold.
    """
    if not job.chunks_left:
        return EdgePlan(())
    first = slot + 1
    return (
        eris.plan_rest(job.commitment(rate), first, job.deadline_slot)
        if first <= job.deadline_slot
        else None
    )


def over_budget(job: EdgeJob, price: Money, left: Money, line: int | None = None) -> EdgeOutcome:
    """Return the rejection of a job whose price exceeds the budget; see `EdgeOutcome`."""
    refused = EdgeDecision(job.id, admitted=False, reason=Reason.OVER_BUDGET)
    return EdgeOutcome(refused, price, budget_remaining=left, line=line)


def _rejected(eris: Eris, found: EdgeDecision, job: EdgeJob, last: int, slot: int) -> EdgeOutcome:
    """Add the cheapest price by the deadline, or else the earliest possible finish."""
    lines = eris.quote(job, slot).lines
    in_time = [line for line in lines if line.finish <= last]
    if in_time:
        return EdgeOutcome(found, in_time[-1].price)
    if found.reason is Reason.UNPROFITABLE:
        found = EdgeDecision(job.id, admitted=False, reason=Reason.NO_CAPACITY)
    return EdgeOutcome(found, earliest=lines[0].finish if lines else None)


# Of the speed that was sold: what a slot counts as that has begun and trained no row in time.
_NO_ROW = 0.75


class PlanZone(SlottedZone[EdgeJobState, EdgeBid]):
    """Zone that sells plans at sites: decides on bids, and plans anew what was not trained.

    Its mechanism is changed by recorded events only.

    Args:
        name: of the zone.
        clock: its slots.
        model: state and mechanism.
        writer: numbers events.
    """

    def __init__(self, name: str, clock: SlotClock, model: EdgeModel, writer: EventWriter) -> None:
        super().__init__(name, clock, model, writer)
        self.eris = model.mechanism
        self.state = model.state

    @abstractmethod
    def _job(self, bid: EdgeBid) -> tuple[EdgeJob, int]:
        """Return a bid as the mechanism sees it, and the last slot that its plan may use."""

    def _rates(self, job: EdgeJobState) -> Iterable[float | None]:
        """Return the rates to plan a job at, the first that has a plan: None is that sold."""
        return (None,)

    def _can_wait(self, job: EdgeJobState) -> bool:
        """Return whether a job without a plan may get one later."""
        return False

    def begin_slot(self, slot: int) -> None:
        self.record(SlotStarted(slot=slot))

    def replan(self, failed_slots: Mapping[str, list[int]], why: str) -> None:
        """Plan the remaining work of jobs from the next slot on; a job without a plan is refunded.

        All jobs release their remaining slots first; then they are planned in the order of
        their values, highest first. A job that a lost site may still save waits for the site; see
        `replan_waiting`.

        Args:
            failed_slots: ids of the jobs, each with its slots that failed.
            why: reason for the owners.
        """
        jobs = _by_value(self.state.jobs[name] for name in failed_slots)
        with self.atomic():
            for job in jobs:
                self.record(PlanReleased(failed_slots=failed_slots[job.id], why=why), job.id)
            for job in jobs:
                if job.phase is Phase.PAUSED:
                    continue
                if not self._plan(job, why) and self._can_wait(job):
                    self.record(JobNoted(text=f"{why}; it waits for a site to return"), job.id)

    def lose_site(self, site: str, busy: Collection[str]) -> None:
        """Take a lost site off the market, and replan its jobs.

        Args:
            site: name of the site.
            busy: jobs that train now; they are replanned when their slot has been answered.
        """
        if site not in self.state.lost:
            self.record(SiteDown(site=site, why="its node was lost"))
            self.replan_lost_sites([name for name in self.state.jobs if name not in busy])

    def replan_lost_sites(
        self, names: Collection[str], failed_slots: Mapping[str, list[int]] | None = None
    ) -> None:
        """Replan jobs that are planned at lost sites, and those with slots that failed there."""
        lost, first, failed = self.state.lost, self.state.slot + 1, failed_slots or {}
        jobs = (self.state.jobs[name] for name in names)
        hit = {
            job.id: failed.get(job.id, [])
            for job in jobs
            if job.id in failed or job.uses(lost, first)
        }
        if hit:
            self.replan(hit, f"site {', '.join(sorted(lost))} was lost")

    def _decide(self, bid: EdgeBid) -> EdgeDecided:
        slot = self.state.slot
        job, last = self._job(bid)
        return self._decision_data(
            bid, job, last, decide(self.eris, job, last, slot, bid.remaining_budget())
        )

    def _decision_data(
        self, bid: EdgeBid, job: EdgeJob, last: int, found: EdgeOutcome
    ) -> EdgeDecided:
        return EdgeDecided(
            owner=bid.owner,
            request=bid.request,
            training=bid.training,
            idempotency_key=bid.idempotency_key,
            size=bid.facts.size,
            facts=bid.facts,
            job=job,
            deadline_slot=last,
            **outcome_fields(found),
        )

    def _plan(self, job: EdgeJobState, why: str) -> bool:
        """Plan the remaining work of a job, or refund it unless it can wait; return if planned."""
        for rate in self._rates(job):
            found = plan_remaining(self.eris, job, self.state.slot, rate)
            if found is not None:
                replaced = PlanReplaced(found=found, why=why, chunks_per_worker_slot=rate)
                self.record(replaced, job.id)
                return True
        if not self._can_wait(job):
            message = f"{why}; no slots are left for it before its deadline"
            self.fail(job.id, "deadline_missed", message, None)
        return False


class EdgeZone(PlanZone):
    """Zone of a service: sells at the speed that its sites reach, and waits for lost ones.

    Args:
        name: of the zone.
        supply: what it sells.
        model: state and mechanism.
        writer: numbers events.
    """

    def __init__(
        self, name: str, supply: EdgeSupply, model: EdgeModel, writer: EventWriter
    ) -> None:
        super().__init__(name, supply.clock, model, writer)
        self.supply = supply
        self.speed = SpeedEstimator()
        # The newest slot that was measured, and the speed before that.
        self._measured = (-1, 1.0)

    def files_in_use(self) -> set[str]:
        requests = [one.request for one in self.pending_jobs.values()]
        requests += [job.request for job in self.admitted_jobs.values()]
        of_sites = {file for one in requests for file in one["sites"].values()}
        return super().files_in_use() | of_sites

    def question(self, bid: EdgeBid) -> MenuRequest:
        """Return the request for a menu up to the deadline of a bid.

        Raises:
            InputError: as `decide`.
        """
        self.begin_slots()
        job, last = self._job(bid)
        return MenuRequest(self.eris.copy(), job, self.state.slot, last)

    def accept(self, bid: EdgeBid, line: EdgeMenuLine) -> JobReadModel | None:
        """Admit a line of an earlier menu at its price; None if that is not possible now."""
        self.begin_slots()
        if line.plan.slots[0].slot <= self.state.slot:
            return None
        job, last = self._job(bid)
        found = accept_line(self.eris, job, line, self.state.slot, bid.remaining_budget())
        if found is None:
            return None
        return self._decided(bid, self._decision_data(bid, job, last, found))

    def pause(self, job: str) -> None:
        self.begin_slots()
        given_up = self._given_up(self.pausable_job(job))
        self.record(EdgePaused(given_up_for=given_up), job)

    def resume(self, job: str) -> bool:
        """Plan a paused job at no charge; return whether there was a plan.

        Raises:
            InputError: if it has ended, is not paused, or its slots cost more than those given up.
        """
        self.begin_slots()
        paused = self.resumable_job(job)
        found = plan_remaining(self.eris, paused, self.state.slot)
        if found is None:
            return False
        if paused.given_up is not None:
            paused.given_up.check(_price(self.eris, paused, found), paused.chunks_left)
        self.record(EdgeResumed(found=found), job)
        # The price of its slots is compared with that of slots at the speed sold.
        self.replan_slower([job])
        return True

    def replan_waiting(self, busy: Collection[str]) -> None:
        """Plan jobs that wait for a site; refund those that cannot wait any longer.

        Args:
            busy: jobs that train now.
        """
        idle = (job for job in self.state.jobs.values() if job.chunks_left and job.id not in busy)
        for job in _by_value(idle):
            if job.phase in (Phase.PLANNED, Phase.TRAINING):
                self._plan(job, "its site was lost")

    def replan_missed(self, busy: Collection[str]) -> None:
        """Replan work that passed slots did not train; end jobs that were paused for too long.

        Args:
            busy: jobs that train now.
        """
        slot = self.state.slot
        idle = [job for job in self.state.jobs.values() if job.id not in busy]
        missed = {
            job.id: slots
            for job in idle
            if job.phase in (Phase.PLANNED, Phase.TRAINING) and (slots := job.missed_slots(slot))
        }
        if missed:
            self.replan(missed, "a slot passed without training")
        for job in idle:
            if job.phase is Phase.PAUSED and slot > job.deadline_slot:
                why = "its deadline passed while it was paused"
                self.fail(job.id, "deadline_passed", why, None, refund=False)

    def record_slot(
        self, job: EdgeJobState, part: SlotPlan, seconds: float, late_rows: int | None = None
    ) -> bool:
        """Compare the speed of a job's slot with the speed sold; return whether it was lower.

        Later slots are sold at the speed reached. A slot that was finished in its time does not
        lower it: what is not training weighs much in a slot with little work. Neither does one
        whose processes were still starting: they are there for the next one.

        Args:
            job: the job.
            part: its plan of the slot.
            seconds: that its steps took.
            late_rows: rows that were trained when its time was over, or None if it was finished.
        """
        if part.slot != self._measured[0]:
            self._measured = part.slot, self.speed.speed
        previous, duration = self._measured[1], seconds / self.clock.slot_seconds
        is_late = late_rows is not None
        reached = previous
        if late_rows == 0:
            reached *= _NO_ROW if seconds else 1.0
        elif seconds:
            due = job.total_rows * part.chunks / job.job.num_chunks
            done = 1.0 if late_rows is None else late_rows / due
            reached = (
                self.supply.slot_share(job.training, job.facts, job.job.chunks, part, done)
                / duration
            )
            if not is_late and duration <= 1.0:
                reached = max(reached, previous)
        self.speed.record_slot(reached)
        if is_late or duration > 1.0 + MAX_SHORTFALL:
            self.note(job.id, TRAINED_LATER)
        return self.speed.speed < previous

    def unfinishable_slots(self, job: EdgeJobState) -> list[int]:
        """Return the current slot, if a job could not finish it in time at the speed reached.

        Nothing if there is no other plan for what is left: the speed is an estimate.
        """
        slot = self.state.slot
        part = job.slot_plan(slot)
        if part is None or slot >= job.deadline_slot:
            return []
        share = self.supply.slot_share(job.training, job.facts, job.job.chunks, part)
        share /= self.speed.speed
        needed = (1 - MAX_SHORTFALL) * share * self.clock.slot_seconds
        if self.clock.now() + needed <= self.clock.slot_end(slot + 1):
            return []
        trained = EdgePlan(tuple(one for one in job.plan.slots if one.slot in job.trained))
        without = self._without(job, job.plan.since(slot + 1))
        for rate in self._rates(job):
            commitment = replace(job.commitment(rate), plan=trained)
            if without.plan_rest(commitment, slot + 1, job.deadline_slot) is not None:
                return [slot]
        return []

    def replan_slower(self, names: Collection[str]) -> None:
        """Plan the remaining slots of jobs at the speed reached, if they were sold at a higher one.

        A job keeps its plan if there is no other before its deadline: its slots may run into the
        next ones, and the sites may be faster again.

        Args:
            names: ids of jobs that do not train now.
        """
        first = self.state.slot + 1
        for job in _by_value(self.state.jobs[name] for name in names):
            rate, rest = self._lower_rate(job), job.plan.since(first)
            if (
                rate is None
                or not rest.slots
                or first > job.deadline_slot
                or job.is_planned_for(rate, first)
            ):
                continue
            found = self._without(job, rest).plan_rest(
                job.commitment(rate), first, job.deadline_slot
            )
            if found is not None:
                with self.atomic():
                    self.record(PlanReleased(failed_slots=[], why=SLOWER), job.id)
                    replaced = PlanReplaced(found=found, why=SLOWER, chunks_per_worker_slot=rate)
                    self.record(replaced, job.id)

    def return_site(self, site: str) -> None:
        """Return a lost site to the market."""
        if site in self.state.lost:
            self.record(SiteUp(site=site))

    def _job(self, bid: EdgeBid) -> tuple[EdgeJob, int]:
        """Return a bid as the mechanism sees it, and its last slot, at the speed reached."""
        return self.supply.job(bid, self.state.slot, self.speed.speed)

    def _rates(self, job: EdgeJobState) -> Iterable[float | None]:
        """Return the rates to plan a job at, the first that has a plan: the lower one, then None.

        None is the rate that was sold: the speed that was reached is an estimate.
        """
        return dict.fromkeys([self._lower_rate(job), None])

    def _lower_rate(self, job: EdgeJobState) -> float | None:
        """Return the chunks that a worker passes through in a slot at the speed reached.

        None if they are not fewer than those sold by more than `MAX_SHORTFALL`.
        """
        rate = self.speed.speed * self.supply.rate(job.training, job.facts, job.job.chunks)
        return rate if rate < (1 - MAX_SHORTFALL) * job.job.chunks_per_worker_slot else None

    def _can_wait(self, job: EdgeJobState) -> bool:
        """Return whether a lost site may be back before a job's last slot."""
        return bool(self.state.lost) and self.state.slot + 1 < job.deadline_slot

    def _given_up(self, job: EdgeJobState) -> GivenUp | None:
        """Return the worth of a job's remaining slots at the prices without it, or None if none."""
        after = self.state.slot + 1
        rest = job.plan.since(after)
        if not rest.slots:
            return None
        price = _price(self._without(job, rest), job, rest)
        return GivenUp(price, sum(part.chunks for part in rest.slots))

    def _without(self, job: EdgeJobState, rest: EdgePlan) -> Eris:
        """Return a copy of the mechanism in which a job has given up the rest of its plan."""
        without = self.eris.copy()
        without.apply(EdgeReplanned(job.job, self.state.slot + 1, rest, None))
        return without


def _by_value(jobs: Iterable[EdgeJobState]) -> list[EdgeJobState]:
    """Return jobs by the value of their planned finish, highest first."""

    def value(job: EdgeJobState) -> float:
        return job.job.value(max((part.slot for part in job.plan.slots), default=job.job.arrival))

    return sorted(jobs, key=lambda job: (-value(job), job.id))


def _price(eris: Eris, job: EdgeJobState, plan: EdgePlan) -> Money:
    """Return what a job would pay for a plan now."""
    return round_money(cost_of(eris.ledger, eris.prices(eris.ledger.begin), job.job, plan))
