"""Plans of a zone's jobs after they were sold: given up, found anew, taken off lost sites.

None of it changes what a job pays. Of several jobs all give up their rests first, so that what is
free is all there is; then the one that bid most is planned first.
"""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from pydantic_core import to_jsonable_python

from auctune.domain import Money, round_money
from auctune.edge import EdgePlan, EdgeReplanned, Eris
from auctune.edge.prices import cost_of
from auctune.run.edge.plain import plan_record
from auctune.service.zones.core.events import EventType
from auctune.service.zones.core.job import GivenUp, Phase
from auctune.service.zones.edge.decision import plan_remaining
from auctune.service.zones.edge.job import EdgeEventType, EdgeJobState

if TYPE_CHECKING:
    from auctune.service.zones.edge.zone import EdgeZone


def replan(zone: "EdgeZone", torn: Mapping[str, list[int]], why: str) -> None:
    """Find new plans for what is left of jobs, from the next slot on; else they are refunded.

    Those that a site may save that is lost now wait for it (`plan_waiting`).

    Args:
        zone: whose jobs they are.
        torn: ids of the jobs, and slots of each that came to nothing.
        why: for their owners.
    """
    jobs = [zone.state.jobs[name] for name in torn]
    jobs.sort(key=lambda job: (-job.job.utility(0), job.id))
    with zone.atomic():
        for job in jobs:
            zone.record(EdgeEventType.RELEASED, job.id, {"torn": torn[job.id], "why": why})
        for job in jobs:
            if job.phase is Phase.PAUSED:
                continue
            if not _planned(zone, job, why) and _can_wait(zone, job):
                text = f"{why}; it waits for a site to return"
                zone.record(EventType.JOB_NOTED, job.id, {"text": text})


def replan_waiting(zone: "EdgeZone", busy: Collection[str]) -> None:
    """Plan jobs that wait for a site; refund those that can wait no longer.

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
    """Plan what is left of a job, or refund it if nothing can save it; whether there is a plan."""
    found = plan_remaining(zone.eris, job, zone.state.slot)
    if found is not None:
        zone.record(EdgeEventType.REPLANNED, job.id, {"found": plan_record(found), "why": why})
    elif not _can_wait(zone, job):
        zone.fail(
            job.id, "deadline_missed", f"{why}; no slots are left for it before its deadline", None
        )
    return found is not None


def _can_wait(zone: "EdgeZone", job: EdgeJobState) -> bool:
    """Whether a site that is lost may be back before a job's last slot."""
    return bool(zone.state.lost) and zone.state.slot + 1 < job.deadline_slot


def lose_site(zone: "EdgeZone", site: str, busy: Collection[str]) -> None:
    """A site runs nothing any more; what it was to run is planned anew.

    Args:
        zone: whose site it is.
        site: its name.
        busy: jobs that train now: they are looked at when that is over.
    """
    if site in zone.state.lost:
        return
    zone.record(EdgeEventType.SITE_LOST, None, {"site": site, "why": "its node is gone"})
    replan_lost_sites(zone, [name for name in zone.state.jobs if name not in busy])


def replan_lost_sites(zone: "EdgeZone", names: Collection[str]) -> None:
    """Plan jobs anew that are to train at sites that are lost."""
    lost, first = zone.state.lost, zone.state.slot + 1
    jobs = (zone.state.jobs[name] for name in names)
    hit = {job.id: list[int]() for job in jobs if job.uses(lost, first)}
    if hit:
        replan(zone, hit, f"site {', '.join(sorted(lost))} was lost")


def return_site(zone: "EdgeZone", site: str) -> None:
    """A site that was lost is for sale again."""
    if site in zone.state.lost:
        zone.record(EdgeEventType.SITE_RETURNED, None, {"site": site})


def replan_missed(zone: "EdgeZone", busy: Collection[str]) -> None:
    """Plan anew what slots that have passed did not train; end what was paused for too long.

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
        replan(zone, missed, "a slot passed without its work")
    for job in idle:
        if job.phase is Phase.PAUSED and slot > job.deadline_slot:
            why = "its deadline passed while it was paused"
            zone.fail(job.id, "deadline_passed", why, None, refund=False)


def pause(zone: "EdgeZone", name: str) -> None:
    """Give up a job's slots to come.

    Raises:
        InputError: if it is over, or paused already.
    """
    given_up = _given_up(zone, zone.pausable_job(name))
    body = {"given_up_for": to_jsonable_python(given_up)}
    zone.record(EventType.PAUSED, name, body)


def resume(zone: "EdgeZone", name: str) -> bool:
    """Find a paused job a new plan at no charge; whether there was any.

    Raises:
        InputError: if it is over, or not paused, or if slots cost more than those given up.
    """
    job = zone.resumable_job(name)
    found = plan_remaining(zone.eris, job, zone.state.slot)
    if found is None:
        return False
    if job.given_up is not None:
        job.given_up.check(_price(zone.eris, job, found), job.chunks_left)
    zone.record(EventType.RESUMED, name, {"found": plan_record(found)})
    return True


def _given_up(zone: "EdgeZone", job: EdgeJobState) -> GivenUp | None:
    """What a job gives up with its slots to come, at the prices without it; `None` without any."""
    after = zone.state.slot + 1
    rest = job.plan.since(after)
    if not rest.slots:
        return None
    without = zone.eris.copy()
    without.apply(EdgeReplanned(job.job, after, rest, None))
    return GivenUp(_price(without, job, rest), sum(part.chunks for part in rest.slots))


def _price(eris: Eris, job: EdgeJobState, plan: EdgePlan) -> Money:
    """What a job would pay for a plan now."""
    return round_money(cost_of(eris.ledger, eris.prices(eris.ledger.begin), job.job, plan))
