"""Dispatches slots to the nodes of an auction zone.

Work that a slot did not finish is part of the targets of later ones. When a node has answered, or
will not, plans that cannot finish any more are replanned at the market's cost, while there is
capacity before the deadline.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import floor

from auctune.service.zones.auction.job import AuctionJob
from auctune.service.zones.auction.zone import AuctionZone
from auctune.service.zones.core.job import Phase
from auctune.service.zones.core.scheduler import SlotScheduler

# A plan is replanned if it falls short by more than this share of one of its slots: a smaller
# shortage is covered by the margin that its profile holds back.
_MAX_SHORTFALL = 0.1


class AuctionScheduler(SlotScheduler[AuctionZone, AuctionJob]):
    """Scheduler of an auction zone: plans say which job trains where."""

    def resume(self, zone: AuctionZone) -> None:
        # Nodes that were lost before the restart have new processes.
        for node in sorted(zone.state.lost - zone.state.drained):
            zone.return_node(node)
        super().resume(zone)

    def _assignments(self, zone: AuctionZone) -> Mapping[str, Sequence[AuctionJob]]:
        return zone.state.cells_of(zone.state.slot)

    def _can_train(self, zone: AuctionZone, job: AuctionJob) -> bool:
        return not job.needs_repair and super()._can_train(zone, job)

    def _training_file(self, job: AuctionJob) -> str:
        return job.repaired or job.training.data

    def _target(self, zone: AuctionZone, job: AuctionJob) -> int:
        """Return the rows that the plan has sold up to the end of this slot."""
        slot = zone.state.slot
        if slot == job.cells[-1].slot:
            return job.total_rows
        sold = sum(
            job.task.throughput[zone.state.node_type(cell.node)]
            for cell in job.cells
            if cell.slot <= slot
        )
        rows = sold * zone.supply.sample_tokens / job.size.mean_tokens
        return min(job.total_rows, floor(rows))

    def _on_slot_begun(self, zone: AuctionZone) -> None:
        # The plans of jobs in flight are checked when their slot is over.
        for job in list(zone.state.jobs.values()):
            if not self._is_in_flight(job):
                self._on_shortfall(zone, job, "a slot passed without training")

    def _on_shortfall(self, zone: AuctionZone, job: AuctionJob, why: str) -> None:
        """Replan a job if the rest of its plan cannot finish the rest of its work."""
        if job.phase is Phase.PAUSED:
            zone.end_if_late(job)
        if job.phase in (Phase.PAUSED, Phase.TRAINED):
            return
        remaining = job.cells_from(zone.state.slot + 1)
        speeds = [job.task.throughput[zone.state.node_type(cell.node)] for cell in remaining]
        tolerance = _MAX_SHORTFALL * (min(speeds) if speeds else 0.0)
        if job.work_left > sum(speeds) + tolerance and not self._is_in_flight(job):
            zone.replan(job, why)

    def _on_node_lost(self, zone: AuctionZone, node: str, why: str) -> None:
        zone.lose_node(node, why)

    def _on_node_back(self, zone: AuctionZone, node: str) -> None:
        if node not in zone.state.drained:
            zone.return_node(node)

    def _jobs_of(
        self, zone: AuctionZone, requests: Mapping[tuple[int, str], frozenset[str]]
    ) -> Iterable[AuctionJob]:
        # Those with a cell that did not train because their data are being repaired, too.
        return [
            job
            for job in zone.state.jobs.values()
            if any((cell.slot, cell.node) in requests for cell in job.cells)
        ]

    def _is_in_flight(self, job: AuctionJob) -> bool:
        return any((cell.slot, cell.node) in self._in_flight for cell in job.cells)
