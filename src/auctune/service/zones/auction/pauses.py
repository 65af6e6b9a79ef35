"""Jobs that their owners pause: their cells go back, and others are found when they resume.

The cells found cost no more, at the prices of then, than those given up did when they were. A job
that is not resumed in time ends with its deadline.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from auctune.domain import Cell, Money, Released, Replanned, Schedule
from auctune.service.zones.auction import plans
from auctune.service.zones.auction.open_job import OpenJob
from auctune.service.zones.event import Kind
from auctune.service.zones.slotted import GivenUp

if TYPE_CHECKING:
    from auctune.service.zones.auction.zone import AuctionZone


def pause(zone: "AuctionZone", name: str) -> None:
    """Give a job's cells to come back, until it is resumed.

    Raises:
        InputError: if it is over, or paused already.
    """
    job = zone.pausable_job(name)
    left = job.cells_from(zone.state.slot + 1)
    zone.apply_to_mechanism(Released(job.task, left))
    given_up = _given_up(zone, job, left)
    body = {"given_up_for": None if given_up is None else given_up.to_record()}
    zone.record(Kind.PAUSED, name, {**plans.moved(left, ()), **body})


def resume(zone: "AuctionZone", name: str) -> bool:
    """Find a paused job new cells at no charge; whether there were any.

    Raises:
        InputError: if it is over, or not paused, or if cells cost more than those given up.
    """
    job = zone.resumable_job(name)
    found, sought = plans.plan_rest(zone, job)
    if found is None:
        return False
    if job.given_up is not None:
        price = _price(zone, job, found, job.work_left)
        assert price is not None
        job.given_up.check(price, job.work_left)
    zone.apply_to_mechanism(Replanned(job.task, zone.state.slot + 1, (), found, refunded=False))
    zone.record(Kind.RESUMED, name, {**plans.moved((), found), "plan": sought})
    return True


def end_if_late(zone: "AuctionZone", job: OpenJob) -> None:
    """End a paused job whose deadline has passed: nothing could be found for it any more.

    It is not refunded: its owner gave up the cells that would have been in time.
    """
    if zone.state.slot > job.task.deadline:
        why = "its deadline passed while it was paused"
        zone.fail(job.id, "deadline_passed", why, None, refund=False)


def _given_up(zone: "AuctionZone", job: OpenJob, cells: tuple[Cell, ...]) -> GivenUp | None:
    """What a job gives up with these cells; `None` if there are none, or no prices."""
    if not cells:
        return None
    slot = zone.state.slot
    at_work = _speed(
        zone, job, (cell for cell in job.cells if cell.slot == slot > job.last_reported_slot)
    )
    work = min(max(0.0, job.work_left - at_work), _speed(zone, job, cells))
    price = None if work <= 0 else _price(zone, job, cells, work)
    return None if price is None else GivenUp(price, work)


def _price(zone: "AuctionZone", job: OpenJob, cells: tuple[Cell, ...], work: float) -> Money | None:
    """What a job would pay for cells now; `None` where the bid is charged."""
    rest = replace(job.task, work=work, quotes=())
    plan = zone.mechanism.price_plan(rest, Schedule(cells), zone.state.slot)
    assert plan is not None
    return plan.price


def _speed(zone: "AuctionZone", job: OpenJob, cells: Iterable[Cell]) -> float:
    """Samples that a job trains in cells."""
    return sum(job.task.throughput[zone.state.node_type(cell.node)] for cell in cells)
