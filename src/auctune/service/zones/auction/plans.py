"""Plans of a zone's jobs after they were sold: given up, found anew, taken off lost nodes.

None of it changes what a job pays. Each function leaves mechanism, state and log of one mind.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from auctune.domain import Cell, NodeLost, NodeReturned, Released, Replanned
from auctune.service.zones.auction.event import AuctionKind
from auctune.service.zones.auction.open_job import OpenJob, cell_records
from auctune.service.zones.phase import Phase

if TYPE_CHECKING:
    from auctune.service.zones.auction.zone import AuctionZone


def release(zone: "AuctionZone", job: OpenJob) -> None:
    """Give a job's cells to come back to the market."""
    left = job.cells_from(zone.state.slot + 1)
    if left:
        zone.apply_to_mechanism(Released(job.task, left))
        zone.record(AuctionKind.RELEASED, job.id, moved(left, ()))


def replan(zone: "AuctionZone", job: OpenJob, why: str, *, at_work: float = 0.0) -> bool:
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
        zone.record(AuctionKind.RELEASED, job.id, {**moved(left, ()), "plan": sought})
        zone.fail(
            job.id, "deadline_missed", f"{why}; no slots are left for it before its deadline", None
        )
        return False
    zone.apply_to_mechanism(Replanned(job.task, first, (), found, refunded=False))
    zone.record(AuctionKind.REPLANNED, job.id, {**moved(left, found), "why": why, "plan": sought})
    return True


def plan_rest(
    zone: "AuctionZone", job: OpenJob, at_work: float = 0.0, ready: int | None = None
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
        _take_off(zone, node, why, first=zone.state.slot, drained=False)


def drain_node(zone: "AuctionZone", node: str, why: str) -> None:
    """A node is let go by its operator: it ends the current slot, and gets nothing more."""
    if node not in zone.state.lost:
        _take_off(zone, node, why, first=zone.state.slot + 1, drained=True)
    elif node not in zone.state.drained:
        # It is lost already, and shall not be for sale again when it comes back.
        zone.record(AuctionKind.NODE_LOST, None, {"node": node, "why": why, "drained": True})


def return_node(zone: "AuctionZone", node: str) -> None:
    """A node that is off the market is for sale again."""
    if node in zone.state.lost:
        zone.apply_to_mechanism(NodeReturned(node, zone.state.slot))
        zone.record(AuctionKind.NODE_RETURNED, None, {"node": node})


def moved(given_up: Sequence[Cell], found: Sequence[Cell]) -> dict[str, Any]:
    """What an event says of cells."""
    return {"given_up": cell_records(tuple(given_up)), "found": cell_records(tuple(found))}


def _take_off(zone: "AuctionZone", node: str, why: str, *, first: int, drained: bool) -> None:
    zone.apply_to_mechanism(NodeLost(node, zone.state.slot))
    zone.record(AuctionKind.NODE_LOST, None, {"node": node, "why": why, "drained": drained})
    hit = [job for job in zone.state.jobs.values() if _needs(job, node, first)]
    for job in sorted(hit, key=lambda job: job.task.deadline):
        why = f"node {node} {'was drained' if drained else 'was lost'}"
        replan(
            zone, job, why, at_work=_at_work(zone, job, node if first == zone.state.slot else "")
        )


def _needs(job: OpenJob, node: str, first: int) -> bool:
    """Whether a job was to train on a node; one that is paused or over needs nothing."""
    if job.phase in (Phase.PAUSED, Phase.TRAINED):
        return False
    return any(cell.node == node for cell in job.cells_from(first))


def _at_work(zone: "AuctionZone", job: OpenJob, gone: str) -> float:
    """Samples that a job is sold in the current slot, on a node that still trains."""
    slot = zone.state.slot
    if job.last_reported_slot >= slot or (job.needs_repair):
        return 0.0
    return sum(
        job.task.throughput[zone.state.node_type(cell.node)]
        for cell in job.cells
        if cell.slot == slot and cell.node != gone
    )
