"""Replanning sold jobs: pauses, lost nodes, repairs. It never changes a payment.

The cells found cost no more, at the prices of then, than those given up did when they were. A job
that is not resumed in time ends with its deadline.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic_core import to_jsonable_python

from auctune.domain import Cell, Money, NodeLost, NodeReturned, Released, Replanned, Schedule
from auctune.domain.data_size import DataSize
from auctune.service.zones.auction import replanning
from auctune.service.zones.auction.job import AuctionEventType, AuctionJob, Repair, cell_records
from auctune.service.zones.core.events import EventType
from auctune.service.zones.core.job import GivenUp, Phase
from auctune.service.zones.core.offers import VendorOffer

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
    body = {"given_up_for": to_jsonable_python(given_up)}
    zone.record(EventType.PAUSED, name, {**replanning.plan_change(left, ()), **body})


def resume(zone: "AuctionZone", name: str) -> bool:
    """Find a paused job new cells at no charge; whether there were any.

    Raises:
        InputError: if it is over, or not paused, or if cells cost more than those given up.
    """
    job = zone.resumable_job(name)
    found, sought = replanning.plan_rest(zone, job)
    if found is None:
        return False
    if job.given_up is not None:
        price = _price(zone, job, found, job.work_left)
        assert price is not None
        job.given_up.check(price, job.work_left)
    zone.apply_to_mechanism(Replanned(job.task, zone.state.slot + 1, (), found, refunded=False))
    zone.record(EventType.RESUMED, name, {**replanning.plan_change((), found), "plan": sought})
    return True


def end_if_late(zone: "AuctionZone", job: AuctionJob) -> None:
    """End a paused job whose deadline has passed: nothing could be found for it any more.

    It is not refunded: its owner gave up the cells that would have been in time.
    """
    if zone.state.slot > job.task.deadline:
        why = "its deadline passed while it was paused"
        zone.fail(job.id, "deadline_passed", why, None, refund=False)


def _given_up(zone: "AuctionZone", job: AuctionJob, cells: tuple[Cell, ...]) -> GivenUp | None:
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


def _price(
    zone: "AuctionZone", job: AuctionJob, cells: tuple[Cell, ...], work: float
) -> Money | None:
    """What a job would pay for cells now; `None` where the bid is charged."""
    rest = replace(job.task, work=work, quotes=())
    plan = zone.mechanism.price_plan(rest, Schedule(cells), zone.state.slot)
    assert plan is not None
    return plan.price


def _speed(zone: "AuctionZone", job: AuctionJob, cells: Iterable[Cell]) -> float:
    """Samples that a job trains in cells."""
    return sum(job.task.throughput[zone.state.node_type(cell.node)] for cell in cells)


# Plans of sold jobs: released, found again, taken off lost nodes.
#
# None of it changes what a job pays. Each function leaves mechanism, state and log of one mind.


def release(zone: "AuctionZone", job: AuctionJob) -> None:
    """Give a job's cells to come back to the market."""
    left = job.cells_from(zone.state.slot + 1)
    if left:
        zone.apply_to_mechanism(Released(job.task, left))
        zone.record(AuctionEventType.RELEASED, job.id, plan_change(left, ()))


def replan(zone: "AuctionZone", job: AuctionJob, why: str, *, at_work: float = 0.0) -> bool:
    """Find new cells for what is left of a job, from the next slot on; else it is refunded.

    Args:
        zone: whose job it is.
        job: admitted, and not trained to its end.
        why: for its owner.
        at_work: samples that the current slot still brings.

    Returns:
        Whether cells were found.
    """
    first = zone.state.slot + 1
    left = job.cells_from(first)
    zone.apply_to_mechanism(Released(job.task, left))
    found, sought = plan_rest(zone, job, at_work)
    if found is None:
        zone.record(AuctionEventType.RELEASED, job.id, {**plan_change(left, ()), "plan": sought})
        zone.fail(
            job.id, "deadline_missed", f"{why}; no slots are left for it before its deadline", None
        )
        return False
    zone.apply_to_mechanism(Replanned(job.task, first, (), found, refunded=False))
    zone.record(
        AuctionEventType.REPLANNED, job.id, {**plan_change(left, found), "why": why, "plan": sought}
    )
    return True


def plan_rest(
    zone: "AuctionZone", job: AuctionJob, at_work: float = 0.0, ready: int | None = None
) -> tuple[tuple[Cell, ...] | None, dict[str, Any] | None]:
    """Cells with room for what is left of a job; none if there are none before its deadline.

    Args:
        zone: whose job it is.
        job: admitted, and not trained to its end.
        at_work: samples that the current slot still brings.
        ready: the first slot for which its data are prepared; none: as it was agreed.

    Returns:
        The cells, and what the mechanism was asked for, for the record; none: it was not asked.
    """
    first = max(zone.state.slot + 1, job.data_ready_slot if ready is None else ready)
    left = job.work_left - at_work
    if left <= 0 < at_work:
        return (), None
    if first > job.task.deadline or left <= 0:
        return None, None
    rest = replace(job.task, work=left, quotes=())
    return zone.mechanism.plan_rest(rest, first), {"work": left, "first": first}


def lose_node(zone: "AuctionZone", node: str, why: str) -> None:
    """A node runs nothing from the current slot on; what it was to run is planned anew."""
    if node not in zone.state.lost:
        _remove_node(zone, node, why, first=zone.state.slot, drained=False)


def drain_node(zone: "AuctionZone", node: str, why: str) -> None:
    """A node is let go by its operator: it ends the current slot, and gets nothing more."""
    if node not in zone.state.lost:
        _remove_node(zone, node, why, first=zone.state.slot + 1, drained=True)
    elif node not in zone.state.drained:
        # It is lost already, and shall not be for sale again when it comes back.
        zone.record(AuctionEventType.NODE_LOST, None, {"node": node, "why": why, "drained": True})


def return_node(zone: "AuctionZone", node: str) -> None:
    """A node that is off the market is for sale again."""
    if node in zone.state.lost:
        zone.apply_to_mechanism(NodeReturned(node, zone.state.slot))
        zone.record(AuctionEventType.NODE_RETURNED, None, {"node": node})


def plan_change(given_up: Sequence[Cell], found: Sequence[Cell]) -> dict[str, Any]:
    """What an event says of cells."""
    return {"given_up": cell_records(tuple(given_up)), "found": cell_records(tuple(found))}


def _remove_node(zone: "AuctionZone", node: str, why: str, *, first: int, drained: bool) -> None:
    zone.apply_to_mechanism(NodeLost(node, zone.state.slot))
    zone.record(AuctionEventType.NODE_LOST, None, {"node": node, "why": why, "drained": drained})
    hit = [job for job in zone.state.jobs.values() if _is_affected(job, node, first)]
    for job in sorted(hit, key=lambda job: job.task.deadline):
        why = f"node {node} {'was drained' if drained else 'was lost'}"
        replan(
            zone,
            job,
            why,
            at_work=_current_slot_work(zone, job, node if first == zone.state.slot else ""),
        )


def _is_affected(job: AuctionJob, node: str, first: int) -> bool:
    """Whether a job was to train on a node; one that is paused or over needs nothing."""
    if job.phase in (Phase.PAUSED, Phase.TRAINED):
        return False
    return any(cell.node == node for cell in job.cells_from(first))


def _current_slot_work(zone: "AuctionZone", job: AuctionJob, gone: str) -> float:
    """Samples that a job is sold in the current slot, on a node that still trains."""
    slot = zone.state.slot
    if job.last_reported_slot >= slot or (job.needs_repair):
        return 0.0
    return sum(
        job.task.throughput[zone.state.node_type(cell.node)]
        for cell in job.cells
        if cell.slot == slot and cell.node != gone
    )


# Repairs: completed, or given to another vendor at the service's cost.
#
# None of it changes what a job pays. Each function leaves mechanism, state and log of one mind.


def is_pending(zone: "AuctionZone", name: str, repair: Repair) -> bool:
    """Whether a job is open and still waits for this repair."""
    job = zone.state.jobs.get(name)
    return job is not None and job.needs_repair and job.repair == repair


def complete_repair(
    zone: "AuctionZone",
    name: str,
    repair: Repair,
    file: str,
    size: DataSize,
    report: dict[str, Any],
) -> bool:
    """Record a repair and pay the vendor; return False if the job does not wait for it any more."""
    if not is_pending(zone, name, repair):
        return False
    body = {"file": file, "report": report, "size": size.to_record()}
    zone.record(AuctionEventType.REPAIRED, name, body)
    return True


def switch_vendor(
    zone: "AuctionZone", name: str, failed: Repair, why: str, offers: Sequence[VendorOffer]
) -> None:
    """Give a job's data to another vendor: the cheapest with whom its deadline can be kept.

    Its cells stay if the data are there in time for them, and others are sought if not. If there
    is no such vendor, the job is refunded.

    Args:
        zone: whose job it is.
        name: the job's.
        failed: what did not come about.
        why: for its owner.
        offers: of other vendors, as of now.
    """
    zone.begin_slots()
    if not is_pending(zone, name, failed):
        return
    job = zone.state.jobs[name]
    repairs = [_repair(zone, offer) for offer in sorted(offers, key=_by_cost)]
    if repairs and _is_in_time(repairs[0], job):
        _change(zone, job, failed, why, repairs[0])
    else:
        _plan_anew(zone, job, failed, why, repairs)


def _is_in_time(repair: Repair, job: AuctionJob) -> bool:
    """Whether a job's cells, if it has some now, can stay."""
    return job.phase is Phase.PAUSED or all(cell.slot >= repair.ready for cell in job.cells)


def _plan_anew(
    zone: "AuctionZone", job: AuctionJob, failed: Repair, why: str, repairs: Sequence[Repair]
) -> None:
    left, sought = job.cells_from(zone.state.slot + 1), None
    zone.apply_to_mechanism(Released(job.task, left))
    for repair in repairs:
        found, sought = replanning.plan_rest(zone, job, ready=repair.ready)
        if found is not None:
            zone.apply_to_mechanism(
                Replanned(job.task, zone.state.slot + 1, (), found, refunded=False)
            )
            body = {**replanning.plan_change(left, found), "why": why, "plan": sought}
            zone.record(AuctionEventType.REPLANNED, job.id, body)
            _change(zone, job, failed, why, repair)
            return
    zone.record(
        AuctionEventType.RELEASED, job.id, {**replanning.plan_change(left, ()), "plan": sought}
    )
    message = f"{why}; no other vendor could repair the data in time"
    zone.fail(job.id, "vendor_failed", message, None)


def _change(zone: "AuctionZone", job: AuctionJob, failed: Repair, why: str, repair: Repair) -> None:
    body = {"failed": failed.vendor, "why": why, "repair": to_jsonable_python(repair)}
    zone.record(AuctionEventType.VENDOR_CHANGED, job.id, body)


def _repair(zone: "AuctionZone", offer: VendorOffer) -> Repair:
    ready = zone.state.slot + 1 + zone.clock.slots_for(offer.seconds)
    return Repair(offer.vendor, offer.price, ready, offer.reference)


def _by_cost(offer: VendorOffer) -> tuple[Any, float, str]:
    return offer.price, offer.seconds, offer.vendor
