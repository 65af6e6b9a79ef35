"""Dispatches slots to the nodes of an auction zone; all of it runs on the actor's thread.

At the beginning of a slot, each node is sent its tasks with cumulative quotas, so that later slots
make up for earlier ones. When a node has answered, or failed, jobs whose remaining cells no longer
suffice are replanned at the market's cost while there is room before the deadline.
"""

from collections.abc import Callable
from math import floor
from pathlib import Path

import structlog

from auctune.run.executor import TaskOrder
from auctune.run.executor.executor import Executor
from auctune.run.executor.orders import make_order
from auctune.service.zones.auction import replanning
from auctune.service.zones.auction.job import AuctionJob
from auctune.service.zones.auction.zone import AuctionZone
from auctune.service.zones.core.events import EventType
from auctune.service.zones.core.job import Phase
from auctune.service.zones.core.zone import lose_to_memory

_log = structlog.get_logger(__name__)

# A job is replanned if its cells fall short by more than this share of one of its slots; the margin
# of a device's profile makes up for less.
_SHORT = 0.1

_LESS_MEMORY = "a smaller batch_size, max_length or rank needs less"


class SlotScheduler:
    """Dispatches the slots of one zone to its nodes, and records their results.

    Args:
        executor: executor of the nodes.
        work: folder of the jobs' checkpoints and adapters.
        content: returns the path of a file, by its id.
    """

    def __init__(
        self,
        executor: Executor,
        work: Path,
        content: Callable[[str], Path],
    ) -> None:
        self._executor = executor
        self._work = work
        self._content = content
        # Jobs whose slots are being trained, by (slot, node).
        self._in_flight: dict[tuple[int, str], frozenset[str]] = {}
        # The last slot that was dispatched: a bid may begin a slot before the ticker does.
        self._slot = -1

    def folder(self, job: str) -> Path:
        """Return the folder of a job."""
        return self._work / job

    def is_running(self, job: str) -> bool:
        """Return whether a node may be training a job, even one that has ended."""
        return any(job in jobs for jobs in self._in_flight.values())

    def resume(self, zone: AuctionZone) -> None:
        """Resume after a start: return lost nodes to the market, and dispatch the slot."""
        # Every node has a new process.
        for node in sorted(zone.state.lost - zone.state.drained):
            zone.return_node(node)
        self.run_slot(zone)

    def run_slot(self, zone: AuctionZone) -> None:
        """Begin the current slot, and dispatch it unless that was done."""
        zone.begin_slots()
        if zone.state.slot == self._slot:
            return
        self._slot = zone.state.slot
        self._dispatch(zone)
        # Jobs in flight are checked when their slot has been answered.
        for job in list(zone.state.jobs.values()):
            if not self._is_in_flight(job):
                self._replan_if_short(zone, job, "a slot passed without its work")

    def on_message(self, zone: AuctionZone, node: str, message: dict[str, object]) -> None:
        """Handle a message of a node."""
        match message["kind"]:
            case "trained" if not message.get("stale"):
                self._trained(zone, node, message)
            case "failed" | "unanswered" if not message.get("stale"):
                self._on_slot_failed(zone, node, message)
            case "noted":
                self._on_note(zone, message)
            case "lost":
                zone.lose_node(node, f"it is lost ({message['how']})")
            case "back" if node not in zone.state.drained:
                zone.return_node(node)

    def _dispatch(self, zone: AuctionZone) -> None:
        slot = zone.state.slot
        for node, jobs in zone.state.cells_of(slot).items():
            if (slot, node) in self._in_flight:
                continue
            orders = [self._request(zone, job, slot) for job in jobs if _can_train(job, slot)]
            if orders:
                self._in_flight[slot, node] = frozenset(order.job.id for order in orders)
                self._executor.start(slot, node, orders, zone.clock.slot_end(slot))

    def _request(self, zone: AuctionZone, job: AuctionJob, slot: int) -> TaskOrder:
        training = job.training
        validation = training.validation
        return make_order(
            job.id,
            training.settings(),
            self._content(job.repaired or training.data),
            None if validation is None else self._content(validation),
            self.folder(job.id),
            number=slot + 1,
            target=_target(zone, job, slot),
            known_steps=job.progress.steps,
        )

    def _trained(self, zone: AuctionZone, node: str, message: dict[str, object]) -> None:
        slot, results, refused = message["slot"], message["results"], message.get("refused") or {}
        assert isinstance(slot, int)
        assert isinstance(results, dict)
        assert isinstance(refused, dict)
        self._in_flight.pop((slot, node), None)
        for name, result in results.items():
            job = zone.state.jobs.get(name)
            if job is None or job.last_reported_slot >= slot:
                continue
            body = {"node": node, "slot": slot, "seconds": message["seconds"], "result": result}
            zone.record(EventType.TRAINED, name, body)
            self._on_result(zone, job, result)
        for name, error in refused.items():
            job = zone.state.jobs.get(name)
            if job is None:
                continue
            if error.get("out_of_memory"):
                # By its profile it fits: it is replanned at no charge, a few times.
                why = f"slot {slot} was not trained on {node}: {error['found']}"
                _log.warning("a slot was not trained", node=node, slot=slot, job=name, why=why)
                if not lose_to_memory(zone, name, slot, why, _LESS_MEMORY):
                    self._replan_if_short(zone, job, why)
            else:
                replanning.release(zone, job)
                zone.fail(name, "training_failed", f"{error['place']} {error['found']}", None)

    def _on_result(self, zone: AuctionZone, job: AuctionJob, result: dict[str, object]) -> None:
        if result["note"]:
            zone.record(EventType.JOB_NOTED, job.id, {"text": result["note"]})
        if result["state"] == "done":
            replanning.release(zone, job)
        elif result["state"] == "failed":
            replanning.release(zone, job)
            # The training diverged: that is not the market's failure.
            zone.fail(job.id, "training_failed", str(result["note"]), None, refund=False)
        else:
            self._replan_if_short(zone, job, "its slots trained less than was sold")

    def _on_slot_failed(self, zone: AuctionZone, node: str, message: dict[str, object]) -> None:
        slot = message.get("slot")
        why = message.get("why")
        if message.get("begun", True):
            _log.warning("a slot was not trained", node=node, slot=slot, why=why)
        else:
            # As after each restart: later slots make up for it, or the job is replanned.
            _log.info("a slot was skipped", node=node, slot=slot, why=why)
        failed = {key for key in self._in_flight if key[1] == node and slot in (None, key[0])}
        for key in failed:
            del self._in_flight[key]
        for job in list(zone.state.jobs.values()):
            if any((cell.slot, cell.node) in failed for cell in job.cells):
                self._replan_if_short(zone, job, f"node {node} did not train a slot: {why}")

    def _on_note(self, zone: AuctionZone, message: dict[str, object]) -> None:
        job = zone.state.jobs.get(str(message["task"]))
        text = str(message["text"])
        if job is not None and text not in job.notes:
            zone.record(EventType.JOB_NOTED, job.id, {"text": text})

    def _is_in_flight(self, job: AuctionJob) -> bool:
        return any((cell.slot, cell.node) in self._in_flight for cell in job.cells)

    def _replan_if_short(self, zone: AuctionZone, job: AuctionJob, why: str) -> None:
        """Replan a job whose remaining cells cannot train its remaining work."""
        if job.phase is Phase.PAUSED:
            replanning.end_if_late(zone, job)
        if job.phase in (Phase.PAUSED, Phase.TRAINED):
            return
        left = job.cells_from(zone.state.slot + 1)
        speeds = [job.task.throughput[zone.state.node_type(cell.node)] for cell in left]
        spare = _SHORT * (min(speeds) if speeds else 0.0)
        if job.work_left > sum(speeds) + spare and not self._is_in_flight(job):
            replanning.replan(zone, job, why)


def _target(zone: AuctionZone, job: AuctionJob, slot: int) -> int:
    """Return the rows that the plan has sold up to the end of a slot, over all epochs."""
    if slot == job.cells[-1].slot:
        return job.total_rows
    sold = sum(
        job.task.throughput[zone.state.node_type(cell.node)]
        for cell in job.cells
        if cell.slot <= slot
    )
    rows = sold * zone.supply.sample_tokens / job.size.mean_tokens
    return min(job.total_rows, floor(rows))


def _can_train(job: AuctionJob, slot: int) -> bool:
    # After a restart, the slot may be recorded already.
    return (
        not job.needs_repair
        and job.phase in (Phase.PLANNED, Phase.TRAINING)
        and job.last_reported_slot < slot
    )
