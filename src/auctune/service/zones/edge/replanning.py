"""Replanning of sold jobs: pauses, missed slots, lost sites. It never changes a payment.

Of several jobs, all release their remaining slots first; then they are planned in the order of
their bids, highest first.
"""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from auctune.domain import Money, round_money
from auctune.edge import EdgePlan, EdgeReplanned, Eris
from auctune.edge.prices import cost_of
from auctune.service.zones.core.events import JobNoted
from auctune.service.zones.core.job import GivenUp, Phase
from auctune.service.zones.edge.decision import plan_remaining
from auctune.service.zones.edge.events import (
    EdgePaused,
    EdgeResumed,
    PlanReleased,
    PlanReplaced,
    SiteDown,
    SiteUp,
)
from auctune.service.zones.edge.job import EdgeJobState

if TYPE_CHECKING:
    from auctune.service.zones.edge.zone import EdgeZone


def replan(zone: "EdgeZone", failed_slots: Mapping[str, list[int]], why: str) -> None:
    """Plan the remaining work of jobs from the next slot on; a job without a plan is refunded.

    A job that a lost site may still save waits for the site; see `replan_waiting`.

    Args:
        zone: the zone of the jobs.
        failed_slots: ids of the jobs, each with its slots that failed.
        why: reason for the owners.
    """
    jobs = [zone.state.jobs[name] for name in failed_slots]
    jobs.sort(key=lambda job: (-job.job.utility(0), job.id))
    with zone.atomic():
        for job in jobs:
            zone.record(PlanReleased(failed_slots=failed_slots[job.id], why=why), job.id)
        for job in jobs:
            if job.phase is Phase.PAUSED:
                continue
            if not _planned(zone, job, why) and _can_wait(zone, job):
                text = f"{why}; it waits for a site to return"
                zone.record(JobNoted(text=text), job.id)


def replan_waiting(zone: "EdgeZone", busy: Collection[str]) -> None:
    """Plan jobs that wait for a site; refund those that cannot wait any longer.

    Args:
        zone: at its newest slot.
        busy: jobs that train now.
    """
    jobs = [job for job in zone.state.jobs.values() if job.chunks_left and job.id not in busy]
    jobs.sort(key=lambda job: (-job.job.utility(0), job.id))
    for job in jobs:
        if job.phase in (Phase.PLANNED, Phase.TRAINING):
            _planned(zone, job, "its site was lost")


def _planned(zone: "EdgeZone", job: EdgeJobState, why: str) -> bool:
    """Plan the remaining work of a job, or refund it unless it can wait; return if planned."""
    found = plan_remaining(zone.eris, job, zone.state.slot)
    if found is not None:
        zone.record(PlanReplaced(found=found, why=why), job.id)
    elif not _can_wait(zone, job):
        zone.fail(
            job.id, "deadline_missed", f"{why}; no slots are left for it before its deadline", None
        )
    return found is not None


def _can_wait(zone: "EdgeZone", job: EdgeJobState) -> bool:
    """Return whether a lost site may be back before a job's last slot."""
    return bool(zone.state.lost) and zone.state.slot + 1 < job.deadline_slot


def lose_site(zone: "EdgeZone", site: str, busy: Collection[str]) -> None:
    """Take a lost site off the market, and replan its jobs.

    Args:
        zone: the zone of the site.
        site: name of the site.
        busy: jobs that train now; they are replanned when their slot has been answered.
    """
    if site in zone.state.lost:
        return
    zone.record(SiteDown(site=site, why="its node was lost"))
    replan_lost_sites(zone, [name for name in zone.state.jobs if name not in busy])


def replan_lost_sites(zone: "EdgeZone", names: Collection[str]) -> None:
    """Replan jobs that are planned at lost sites."""
    lost, first = zone.state.lost, zone.state.slot + 1
    jobs = (zone.state.jobs[name] for name in names)
    hit = {job.id: list[int]() for job in jobs if job.uses(lost, first)}
    if hit:
        replan(zone, hit, f"site {', '.join(sorted(lost))} was lost")


def return_site(zone: "EdgeZone", site: str) -> None:
    """Return a lost site to the market."""
    if site in zone.state.lost:
        zone.record(SiteUp(site=site))


def replan_missed(zone: "EdgeZone", busy: Collection[str]) -> None:
    """Replan work that passed slots did not train; end jobs that were paused for too long.

    Args:
        zone: at its newest slot.
        busy: jobs that train now.
    """
    slot = zone.state.slot
    idle = [job for job in zone.state.jobs.values() if job.id not in busy]
    missed = {
        job.id: slots
        for job in idle
        if job.phase in (Phase.PLANNED, Phase.TRAINING) and (slots := job.missed_slots(slot))
    }
    if missed:
        replan(zone, missed, "a slot passed without training")
    for job in idle:
        if job.phase is Phase.PAUSED and slot > job.deadline_slot:
            why = "its deadline passed while it was paused"
            zone.fail(job.id, "deadline_passed", why, None, refund=False)


def pause(zone: "EdgeZone", name: str) -> None:
    """Release a job's remaining slots.

    Raises:
        InputError: if it has ended, or is paused already.
    """
    given_up = _given_up(zone, zone.pausable_job(name))
    zone.record(EdgePaused(given_up_for=given_up), name)


def resume(zone: "EdgeZone", name: str) -> bool:
    """Plan a paused job at no charge; return whether there was a plan.

    Raises:
        InputError: if it has ended, is not paused, or its slots cost more than those given up.
    """
    job = zone.resumable_job(name)
    found = plan_remaining(zone.eris, job, zone.state.slot)
    if found is None:
        return False
    if job.given_up is not None:
        job.given_up.check(_price(zone.eris, job, found), job.chunks_left)
    zone.record(EdgeResumed(found=found), name)
    return True


def _given_up(zone: "EdgeZone", job: EdgeJobState) -> GivenUp | None:
    """Return the worth of a job's remaining slots at the prices without it, or None if none."""
    after = zone.state.slot + 1
    rest = job.plan.since(after)
    if not rest.slots:
        return None
    without = zone.eris.copy()
    without.apply(EdgeReplanned(job.job, after, rest, None))
    return GivenUp(_price(without, job, rest), sum(part.chunks for part in rest.slots))


def _price(eris: Eris, job: EdgeJobState, plan: EdgePlan) -> Money:
    """Return what a job would pay for a plan now."""
    return round_money(cost_of(eris.ledger, eris.prices(eris.ledger.begin), job.job, plan))
