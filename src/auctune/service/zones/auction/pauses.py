"""Jobs that their owners pause: their cells go back, and others are found when they resume.

One that is not resumed in time ends with its deadline.
"""

from typing import TYPE_CHECKING

from auctune.domain import Released, Replanned
from auctune.service.zones.auction import plans
from auctune.service.zones.auction.open_job import OpenJob
from auctune.service.zones.event import Kind

if TYPE_CHECKING:
    from auctune.service.zones.auction.zone import AuctionZone


def pause(zone: "AuctionZone", name: str) -> None:
    """Give a job's cells to come back, until it is resumed.

    Raises:
        InputError: if it is over, or paused already.
    """
    job = zone.to_pause(name)
    left = job.cells_from(zone.state.slot + 1)
    zone.tell(Released(job.task, left))
    zone.happen(Kind.PAUSED, name, plans.moved(left, ()))


def resume(zone: "AuctionZone", name: str) -> bool:
    """Find a paused job new cells at no charge; whether there were any.

    Raises:
        InputError: if it is over, or not paused.
    """
    job = zone.to_resume(name)
    found, sought = plans.plan_rest(zone, job)
    if found is None:
        return False
    zone.tell(Replanned(job.task, zone.state.slot + 1, (), found, refunded=False))
    zone.happen(Kind.RESUMED, name, {**plans.moved((), found), "plan": sought})
    return True


def end_if_late(zone: "AuctionZone", job: OpenJob) -> None:
    """End a paused job whose deadline has passed: nothing could be found for it any more.

    It is not refunded: its owner gave up the cells that would have been in time.
    """
    if zone.state.slot > job.task.deadline:
        why = "its deadline passed while it was paused"
        zone.fail(job.id, "deadline_passed", why, None, refund=False)
