"""Commands of an edge zone: bids, quotes, slots, and the replanning of sold jobs.

Replanning, after a pause, a missed slot or a lost site, never changes a payment.
"""

from collections.abc import Collection, Iterable, Mapping

from auctune.domain import Money, round_money
from auctune.edge import EdgeJob, EdgeMenuLine, EdgePlan, EdgeReplanned, Eris
from auctune.edge.prices import cost_of
from auctune.service.storage.read_model import JobReadModel
from auctune.service.zones.core.events import JobNoted, SlotStarted
from auctune.service.zones.core.job import GivenUp, Phase
from auctune.service.zones.core.zone import EventWriter, SlottedZone
from auctune.service.zones.edge.decision import (
    EdgeOutcome,
    accept_line,
    decide,
    outcome_fields,
    plan_remaining,
)
from auctune.service.zones.edge.events import (
    EdgeDecided,
    EdgePaused,
    EdgeResumed,
    PlanReleased,
    PlanReplaced,
    SiteDown,
    SiteUp,
)
from auctune.service.zones.edge.job import EdgeJobState
from auctune.service.zones.edge.state import EdgeModel
from auctune.service.zones.edge.supply import EdgeBid, EdgeSupply, MenuRequest


class EdgeZone(SlottedZone[EdgeJobState, EdgeBid]):
    """One zone, at its newest slot. Its mechanism is changed by recorded events only.

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
        self.eris = model.mechanism
        self.state = model.state

    def uses_file(self, file: str) -> bool:
        requests = [one.request for one in self.pending_jobs.values()]
        requests += [job.request for job in self.admitted_jobs.values()]
        return super().uses_file(file) or any(file in one["sites"].values() for one in requests)

    def begin_slot(self, slot: int) -> None:
        self.record(SlotStarted(slot=slot))

    def question(self, bid: EdgeBid) -> MenuRequest:
        """Return the request for a menu up to the deadline of a bid.

        Raises:
            InputError: as `decide`.
        """
        self.begin_slots()
        job, last = self.supply.job(bid, self.state.slot)
        return MenuRequest(self.eris.copy(), job, self.state.slot, last)

    def accept(self, bid: EdgeBid, line: EdgeMenuLine) -> JobReadModel | None:
        """Admit a line of an earlier menu at its price; None if that is not possible now."""
        self.begin_slots()
        if line.plan.slots[0].slot <= self.state.slot:
            return None
        job, last = self.supply.job(bid, self.state.slot)
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
        return True

    def replan(self, failed_slots: Mapping[str, list[int]], why: str) -> None:
        """Plan the remaining work of jobs from the next slot on; a job without a plan is refunded.

        All jobs release their remaining slots first; then they are planned in the order of their
        bids, highest first. A job that a lost site may still save waits for the site; see
        `replan_waiting`.

        Args:
            failed_slots: ids of the jobs, each with its slots that failed.
            why: reason for the owners.
        """
        jobs = _by_bid(self.state.jobs[name] for name in failed_slots)
        with self.atomic():
            for job in jobs:
                self.record(PlanReleased(failed_slots=failed_slots[job.id], why=why), job.id)
            for job in jobs:
                if job.phase is Phase.PAUSED:
                    continue
                if not self._plan(job, why) and self._can_wait(job):
                    self.record(JobNoted(text=f"{why}; it waits for a site to return"), job.id)

    def replan_waiting(self, busy: Collection[str]) -> None:
        """Plan jobs that wait for a site; refund those that cannot wait any longer.

        Args:
            busy: jobs that train now.
        """
        idle = (job for job in self.state.jobs.values() if job.chunks_left and job.id not in busy)
        for job in _by_bid(idle):
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

    def lose_site(self, site: str, busy: Collection[str]) -> None:
        """Take a lost site off the market, and replan its jobs.

        Args:
            site: name of the site.
            busy: jobs that train now; they are replanned when their slot has been answered.
        """
        if site not in self.state.lost:
            self.record(SiteDown(site=site, why="its node was lost"))
            self.replan_lost_sites([name for name in self.state.jobs if name not in busy])

    def replan_lost_sites(self, names: Collection[str]) -> None:
        """Replan jobs that are planned at lost sites."""
        lost, first = self.state.lost, self.state.slot + 1
        jobs = (self.state.jobs[name] for name in names)
        hit = {job.id: list[int]() for job in jobs if job.uses(lost, first)}
        if hit:
            self.replan(hit, f"site {', '.join(sorted(lost))} was lost")

    def return_site(self, site: str) -> None:
        """Return a lost site to the market."""
        if site in self.state.lost:
            self.record(SiteUp(site=site))

    def _decide(self, bid: EdgeBid) -> EdgeDecided:
        slot = self.state.slot
        job, last = self.supply.job(bid, slot)
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
            size=bid.facts.size.to_record(),
            facts=bid.facts,
            job=job,
            deadline_slot=last,
            **outcome_fields(found),
        )

    def _plan(self, job: EdgeJobState, why: str) -> bool:
        """Plan the remaining work of a job, or refund it unless it can wait; return if planned."""
        found = plan_remaining(self.eris, job, self.state.slot)
        if found is not None:
            self.record(PlanReplaced(found=found, why=why), job.id)
        elif not self._can_wait(job):
            message = f"{why}; no slots are left for it before its deadline"
            self.fail(job.id, "deadline_missed", message, None)
        return found is not None

    def _can_wait(self, job: EdgeJobState) -> bool:
        """Return whether a lost site may be back before a job's last slot."""
        return bool(self.state.lost) and self.state.slot + 1 < job.deadline_slot

    def _given_up(self, job: EdgeJobState) -> GivenUp | None:
        """Return the worth of a job's remaining slots at the prices without it, or None if none."""
        after = self.state.slot + 1
        rest = job.plan.since(after)
        if not rest.slots:
            return None
        without = self.eris.copy()
        without.apply(EdgeReplanned(job.job, after, rest, None))
        return GivenUp(_price(without, job, rest), sum(part.chunks for part in rest.slots))


def _by_bid(jobs: Iterable[EdgeJobState]) -> list[EdgeJobState]:
    return sorted(jobs, key=lambda job: (-job.job.utility(0), job.id))


def _price(eris: Eris, job: EdgeJobState, plan: EdgePlan) -> Money:
    """Return what a job would pay for a plan now."""
    return round_money(cost_of(eris.ledger, eris.prices(eris.ledger.begin), job.job, plan))
