"""Worker of a zone of kind `fcfs`: one job on each node, until it is trained."""

from collections.abc import Mapping, Sequence

from auctune.service.zones.core.job import Phase
from auctune.service.zones.core.scheduler import SlotScheduler, SlotWorker
from auctune_fcfs.state import FcfsJob
from auctune_fcfs.zone import FcfsZone


class FcfsScheduler(SlotScheduler[FcfsZone, FcfsJob]):
    """Chooses the jobs that train on nodes in a slot; the base class runs them."""

    def _assignments(self, zone: FcfsZone) -> Mapping[str, Sequence[FcfsJob]]:
        return {node: [job] for node, job in zone.assign_nodes().items()}

    def _target(self, zone: FcfsZone, job: FcfsJob) -> int:
        # No limit but the end of the slot.
        return job.total_rows

    def _on_slot_begun(self, zone: FcfsZone) -> None:
        for job in list(zone.state.jobs.values()):
            self._on_shortfall(zone, job, "")

    def _on_shortfall(self, zone: FcfsZone, job: FcfsJob, why: str) -> None:
        if job.phase is not Phase.TRAINED and not self.is_running(job.id):
            zone.end_if_late(job)


class FcfsWorker(SlotWorker[FcfsZone]):
    """Worker of a zone."""

    scheduler = FcfsScheduler
