"""Zone of a market file, and the scheduler of its slots, which end when all is trained."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from auctune.domain import Decision, InputError, Task
from auctune.engine.messages.base import ErrorRecord
from auctune.engine.messages.node import (
    Ended,
    Lost,
    NodeMessage,
    NotCompleted,
    Recovered,
    RequestFailed,
    TaskQuota,
    TaskResult,
    Trained,
)
from auctune.engine.runtime.nodes import NodeError
from auctune.engine.runtime.supervisor import Executor
from auctune.engine.unix_time import SlotClock
from auctune.service.zones.auction.state import AuctionJob, AuctionModel
from auctune.service.zones.auction.zone import AuctionZone, Supply
from auctune.service.zones.auction.zone import Bid as ZoneBid
from auctune.service.zones.core.events import JobNoted
from auctune.service.zones.core.scheduler import SlotScheduler
from auctune.service.zones.core.zone import EventWriter
from auctune.standalone.folder import RunFolder

ZONE = "market"
"""Name of a market's zone in its log."""


class MarketZone(AuctionZone):
    """Auction zone of a market file, whose bids are for slots from their arrival on.

    Args:
        tasks: of all bids, by job.
        supply, model, clock, writer: as of `AuctionZone`.
    """

    def __init__(
        self,
        tasks: Mapping[str, Task],
        supply: Supply,
        model: AuctionModel,
        clock: SlotClock,
        writer: EventWriter,
    ) -> None:
        super().__init__(ZONE, supply, model, clock, writer)
        self._tasks = tasks

    def begin_slots(self) -> None:
        # Idle ones as well, as in a simulation: prices learn at the beginning of each.
        for slot in range(self.state.slot + 1, self.clock.slot() + 1):
            self.begin_slot(slot)

    def task(self, bid: ZoneBid) -> Task:
        return self._tasks[bid.job]

    def _earliest(self, task: Task, decision: Decision) -> None:
        # For owners who bid again with a later deadline; searching for it may take minutes.
        return None

    def end_jobs(self, failures: Mapping[str, str | None]) -> None:
        """End jobs whose training is over: None, or why it could not go on.

        Released cells move prices: in the order of decisions, not of the nodes' messages.
        """
        for name, failure in failures.items():
            self.release_capacity(self.admitted_jobs[name])
            if failure is None:
                self.finish(name, [])
            else:
                self.fail(name, "training_diverged", failure, None, refund=False)


class MarketScheduler(SlotScheduler[MarketZone, AuctionJob]):
    """Scheduler of a market: slots last until their quotas are trained, and nodes are waited for.

    Args:
        folder: of the run.
        executor: of the nodes.
    """

    def __init__(self, folder: RunFolder, executor: Executor) -> None:
        super().__init__(executor, folder.work, folder.resolve)
        self._folder = folder
        # How nodes exited that have not answered since.
        self._exits: dict[str, str] = {}

    @property
    def waiting(self) -> set[str]:
        """Nodes that have not answered yet in the current slot."""
        return {node for _, node in self._in_flight}

    def begin_slot(self, zone: MarketZone) -> Sequence[AuctionJob]:
        """Dispatch the current slot, and return the jobs that are trained in it."""
        self.run_slot(zone)
        return [job for job in zone.admitted_jobs.values() if self.is_running(job.id)]

    def on_message(self, zone: MarketZone, node: str, message: NodeMessage) -> None:
        """Handle a message of a node.

        Raises:
            NodeError: if the node's worker exits again and again.
            InputError: if a task cannot be trained as it stands.
        """
        slot, is_waiting = zone.event_slot, node in self.waiting
        match message:
            case RequestFailed():
                # A worker that could not start answers no request.
                if not message.request or not message.stale:
                    raise _node_failure(node, message.error)
            case Ended():
                self._exits[node] = f"ended {message.exits} times in a row: {message.how}"
                if is_waiting:
                    _note(zone, f"slot {slot}: node {node} ended ({message.how})")
            case Lost(missing=True):
                # Its worker ended with its machine.
                self._exits.pop(node, None)
                _note(zone, f"node {node} is lost ({message.how}), and is waited for")
            case NotCompleted():
                if is_waiting and node in self._exits:
                    raise NodeError(f"node {node} {self._exits[node]}")
            case Recovered() if is_waiting:
                del self._in_flight[slot, node]
                # That node alone: what another one had no memory for waits for the next slot.
                self._dispatch_node(zone, node, self._assignments(zone)[node])
            case _:
                super().on_message(zone, node, message)

    def _assignments(self, zone: MarketZone) -> Mapping[str, Sequence[AuctionJob]]:
        return zone.state.cells_of(zone.state.slot)

    def _slot_end(self, zone: MarketZone) -> None:
        return None

    def _request(self, zone: MarketZone, job: AuctionJob) -> TaskQuota:
        quota = super()._request(zone, job)
        if job.repaired is not None:
            quota = replace(quota, job=replace(quota.job, data=self._folder.repaired(job.id)))
        return replace(quota, adapter=self._folder.result(job.id) / "adapter")

    def _target(self, zone: MarketZone, job: AuctionJob) -> int:
        """Return the rows that the plan has sold up to the end of this slot."""
        slot, epochs = zone.state.slot, job.training.epochs
        if slot == job.cells[-1].slot:
            return job.total_rows
        sold = sum(
            job.task.throughput[zone.state.node_type(cell.node)]
            for cell in job.cells
            if cell.slot <= slot
        )
        supply = zone.supply
        tokens = sold * supply.sample_tokens / supply.token_cost(job.training, job.size)
        return job.size.rows_of(tokens, epochs)

    def _on_trained(self, zone: MarketZone, node: str, message: Trained) -> None:
        self._exits.pop(node, None)
        slot = message.slot
        for name, error in message.refused.items():
            if not error.out_of_memory:
                raise _node_failure(node, error)
            # A run that is resumed tries the slot again.
            if not zone.admitted_jobs[name].cells_from(slot + 1):
                raise NodeError(f"node {node}: {name}: {error.found}, in its last slot")
            zone.note(name, f"slot {slot}: {error.found}; its next slot trains what is left")
        super()._on_trained(zone, node, replace(message, refused={}))

    def _on_result(self, zone: MarketZone, job: AuctionJob, result: TaskResult) -> None:
        if result.note:
            zone.note(job.id, result.note)


def _note(zone: MarketZone, text: str) -> None:
    """Record a note for the operator."""
    zone.record(JobNoted(text=text))


def _node_failure(node: str, error: ErrorRecord) -> Exception:
    if not error.place:
        return NodeError(f"node {node}: {error.found}")
    return InputError(f"node {node}: {error.place}", error.found, error.expected)
