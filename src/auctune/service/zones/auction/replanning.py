"""Replanning of sold jobs: pauses, lost nodes, repairs. It never changes a payment.

Each function leaves the mechanism, the state and the log consistent. A paused job is resumed only
if its new cells cost at most what the released cells were worth; a job that is not resumed in time
ends with its deadline.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from auctune.domain import Cell, Money, NodeLost, NodeReturned, Released, Replanned, Schedule
from auctune.domain.data_size import DataSize
from auctune.service.zones.auction.events import (
    AuctionPaused,
    AuctionResumed,
    CellsReleased,
    CellsReplanned,
    JobRepaired,
    NodeDown,
    NodeUp,
    VendorChanged,
)
from auctune.service.zones.auction.job import AuctionJob, Repair
from auctune.service.zones.core.job import GivenUp, Phase
from auctune.service.zones.core.offers import VendorOffer

if TYPE_CHECKING:
    from auctune.service.zones.auction.zone import AuctionZone


def pause(zone: "AuctionZone", name: str) -> None:
    """Release a job's remaining cells until it is resumed.

    Raises:
        InputError: if it has ended, or is paused already.
    """
    job = zone.pausable_job(name)
    left = job.cells_from(zone.state.slot + 1)
    zone.apply_to_mechanism(Released(job.task, left))
    zone.record(AuctionPaused(given_up=left, given_up_for=_given_up(zone, job, left)), name)


def resume(zone: "AuctionZone", name: str) -> bool:
    """Plan a paused job at no charge; return whether there were cells.

    Raises:
        InputError: if it has ended, is not paused, or its cells cost more than those given up.
    """
    job = zone.resumable_job(name)
    found, sought = plan_rest(zone, job)
    if found is None:
        return False
    if job.given_up is not None:
        price = _price(zone, job, found, job.work_left)
        assert price is not None
        job.given_up.check(price, job.work_left)
    zone.apply_to_mechanism(Replanned(job.task, zone.state.slot + 1, (), found, refunded=False))
    zone.record(AuctionResumed(found=found, plan=sought), name)
    return True


def end_if_late(zone: "AuctionZone", job: AuctionJob) -> None:
    """End a paused job whose deadline has passed.

    It is not refunded: its owner gave up the cells that would have been in time.
    """
    if zone.state.slot > job.task.deadline:
        why = "its deadline passed while it was paused"
        zone.fail(job.id, "deadline_passed", why, None, refund=False)


def _given_up(zone: "AuctionZone", job: AuctionJob, cells: tuple[Cell, ...]) -> GivenUp | None:
    """Return the worth of cells that a job gives up, or None without cells or prices."""
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
    """Return what a job would pay for cells now, or None if the mechanism charges the bid."""
    rest = replace(job.task, work=work, quotes=())
    plan = zone.mechanism.price_plan(rest, Schedule(cells), zone.state.slot)
    assert plan is not None
    return plan.price


def _speed(zone: "AuctionZone", job: AuctionJob, cells: Iterable[Cell]) -> float:
    """Return the samples that a job trains in cells."""
    return sum(job.task.throughput[zone.state.node_type(cell.node)] for cell in cells)


def release(zone: "AuctionZone", job: AuctionJob) -> None:
    """Release a job's remaining cells to the market."""
    left = job.cells_from(zone.state.slot + 1)
    if left:
        zone.apply_to_mechanism(Released(job.task, left))
        zone.record(CellsReleased(given_up=left), job.id)


def replan(zone: "AuctionZone", job: AuctionJob, why: str, *, at_work: float = 0.0) -> bool:
    """Plan the remaining work of a job from the next slot on; a job without cells is refunded.

    Args:
        zone: the zone of the job.
        job: an admitted job that is not trained yet.
        why: reason for its owner.
        at_work: samples that the current slot will still train.

    Returns:
        Whether there were cells.
    """
    first = zone.state.slot + 1
    left = job.cells_from(first)
    zone.apply_to_mechanism(Released(job.task, left))
    found, sought = plan_rest(zone, job, at_work)
    if found is None:
        zone.record(CellsReleased(given_up=left, plan=sought), job.id)
        zone.fail(
            job.id, "deadline_missed", f"{why}; no slots are left for it before its deadline", None
        )
        return False
    zone.apply_to_mechanism(Replanned(job.task, first, (), found, refunded=False))
    zone.record(CellsReplanned(given_up=left, found=found, why=why, plan=sought), job.id)
    return True


def plan_rest(
    zone: "AuctionZone", job: AuctionJob, at_work: float = 0.0, ready: int | None = None
) -> tuple[tuple[Cell, ...] | None, dict[str, Any] | None]:
    """Return cells for the remaining work of a job, or None if its deadline leaves none.

    Args:
        zone: the zone of the job.
        job: an admitted job that is not trained yet.
        at_work: samples that the current slot will still train.
        ready: the first slot for which its data are repaired; None: as agreed.

    Returns:
        The cells, and the request to the mechanism for the event, or None if there was no request.
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
    """Take a lost node off the market from the current slot on, and replan its jobs."""
    if node not in zone.state.lost:
        _remove_node(zone, node, why, first=zone.state.slot, drained=False)


def drain_node(zone: "AuctionZone", node: str, why: str) -> None:
    """Take a node off the market for its operator: it finishes the current slot."""
    if node not in zone.state.lost:
        _remove_node(zone, node, why, first=zone.state.slot + 1, drained=True)
    elif node not in zone.state.drained:
        # It is lost already; once drained, it stays off the market after its recovery.
        zone.record(NodeDown(node=node, why=why, drained=True))


def return_node(zone: "AuctionZone", node: str) -> None:
    """Return a lost or drained node to the market."""
    if node in zone.state.lost:
        zone.apply_to_mechanism(NodeReturned(node, zone.state.slot))
        zone.record(NodeUp(node=node))


def _remove_node(zone: "AuctionZone", node: str, why: str, *, first: int, drained: bool) -> None:
    zone.apply_to_mechanism(NodeLost(node, zone.state.slot))
    zone.record(NodeDown(node=node, why=why, drained=drained))
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
    """Return whether a running job has cells on a node."""
    if job.phase in (Phase.PAUSED, Phase.TRAINED):
        return False
    return any(cell.node == node for cell in job.cells_from(first))


def _current_slot_work(zone: "AuctionZone", job: AuctionJob, gone: str) -> float:
    """Return the samples that a job is sold in the current slot on nodes that still train."""
    slot = zone.state.slot
    if job.last_reported_slot >= slot or job.needs_repair:
        return 0.0
    return sum(
        job.task.throughput[zone.state.node_type(cell.node)]
        for cell in job.cells
        if cell.slot == slot and cell.node != gone
    )


def is_pending(zone: "AuctionZone", name: str, repair: Repair) -> bool:
    """Return whether a job is open and still waits for this repair."""
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
    zone.record(JobRepaired(file=file, report=report, size=size), name)
    return True


def switch_vendor(
    zone: "AuctionZone", name: str, failed: Repair, why: str, offers: Sequence[VendorOffer]
) -> None:
    """Have another vendor repair a job's data: the cheapest one that keeps its deadline.

    The job keeps its cells if the data are repaired in time for them, and is replanned otherwise.
    If there is no such vendor, it is refunded.

    Args:
        zone: the zone of the job.
        name: id of the job.
        failed: the repair that failed.
        why: reason for the owner.
        offers: current offers of other vendors.
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
    """Return whether a job can keep its cells; a paused job has none."""
    return job.phase is Phase.PAUSED or all(cell.slot >= repair.ready for cell in job.cells)


def _plan_anew(
    zone: "AuctionZone", job: AuctionJob, failed: Repair, why: str, repairs: Sequence[Repair]
) -> None:
    left, sought = job.cells_from(zone.state.slot + 1), None
    zone.apply_to_mechanism(Released(job.task, left))
    for repair in repairs:
        found, sought = plan_rest(zone, job, ready=repair.ready)
        if found is not None:
            zone.apply_to_mechanism(
                Replanned(job.task, zone.state.slot + 1, (), found, refunded=False)
            )
            zone.record(CellsReplanned(given_up=left, found=found, why=why, plan=sought), job.id)
            _change(zone, job, failed, why, repair)
            return
    zone.record(CellsReleased(given_up=left, plan=sought), job.id)
    message = f"{why}; no other vendor could repair the data in time"
    zone.fail(job.id, "vendor_failed", message, None)


def _change(zone: "AuctionZone", job: AuctionJob, failed: Repair, why: str, repair: Repair) -> None:
    zone.record(VendorChanged(failed=failed.vendor, why=why, repair=repair), job.id)


def _repair(zone: "AuctionZone", offer: VendorOffer) -> Repair:
    ready = zone.state.slot + 1 + zone.clock.slots_for(offer.seconds)
    return Repair(offer.vendor, offer.price, ready, offer.reference)


def _by_cost(offer: VendorOffer) -> tuple[Any, float, str]:
    return offer.price, offer.seconds, offer.vendor
