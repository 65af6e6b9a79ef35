"""What an auction's zone has come to: a fold over its events."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from auctune.domain import Cell, Cluster, round_money
from auctune.domain.data_size import DataSize
from auctune.run.records import read_decision
from auctune.service.ledger import Entry, charge, energy_cost, vendor_cost
from auctune.service.zones.auction.job import (
    AuctionEventType,
    AuctionJob,
    Repair,
    decided_repair,
    read_cells,
    read_task,
)
from auctune.service.zones.auction.projection import PROJECTION, AuctionProjection
from auctune.service.zones.core import projection
from auctune.service.zones.core.events import EventType, ZoneEvent, job_of
from auctune.service.zones.core.job import PendingJob, Phase, Progress
from auctune.service.zones.core.read_model import Effects
from auctune.service.zones.core.state import JOB_REDUCERS, ZoneState, reduce
from auctune.service.zones.core.zone import GivenUp


@dataclass
class AuctionState(ZoneState[AuctionJob]):
    """Open jobs of a zone, and what its slots cost.

    Attributes:
        cluster: the supply.
        slot: the newest slot that began; -1 before the first.
        lost: nodes that are not for sale: their process is lost, or an operator drained them.
        drained: those among them that an operator drained.
        energy: by node type, money at full load for each slot from `energy_first` on.
        energy_first: slot of the first of them.
    """

    cluster: Cluster
    slot: int = -1
    lost: set[str] = field(default_factory=set)
    drained: set[str] = field(default_factory=set)
    energy: dict[str, list[float]] = field(default_factory=dict)
    energy_first: int = 0

    def __post_init__(self) -> None:
        if not self.energy:
            kinds = self.cluster.node_types
            self.energy = {name: list(kind.energy_cost) for name, kind in kinds.items()}
        self._types = {node.id: node.type for node in self.cluster.nodes}

    def apply(self, event: ZoneEvent) -> Effects:
        """Take over what happened."""
        change = reduce(_HANDLERS, self, event)
        job = None if event.job is None else self.jobs.get(event.job)
        if job is not None:
            job.last_event_seq = event.seq
        return change

    def cells_of(self, slot: int) -> dict[str, list[AuctionJob]]:
        """Jobs that have a cell in a slot, by node, in the order in which they were admitted."""
        found: dict[str, list[AuctionJob]] = {}
        for job in self.jobs.values():
            for cell in job.cells:
                if cell.slot == slot:
                    found.setdefault(cell.node, []).append(job)
        return found

    def node_type(self, node: str) -> str:
        """The type of a node."""
        return self._types[node]

    def operating_cost(self, job: AuctionJob, cell: Cell) -> float:
        """Money for the energy that a job takes in a cell."""
        kind = self._types[cell.node]
        share = job.task.throughput[kind] / self.cluster.node_types[kind].compute
        offset = cell.slot - self.energy_first
        costs = self.energy[kind]
        return share * (costs[offset] if 0 <= offset < len(costs) else 0.0)

    @property
    def rows(self) -> AuctionProjection:
        """Makes rows of its jobs."""
        return PROJECTION

    def admit(self, event: ZoneEvent, asked: PendingJob) -> AuctionJob:
        """A job that an event admits."""
        body, decision = event.body, read_decision(event.body["decision"])
        task = read_task(body["task"])
        assert decision.schedule is not None
        job = AuctionJob(
            **vars(asked),
            task=task,
            decision=decision,
            cells=decision.schedule.cells,
            size=DataSize.from_record(body["size"]),
            repair=decided_repair(task, decision, body.get("offers", {})),
        )
        job.progress = Progress(total_rows=job.total_rows)
        return job

    def admission_entries(self, job: AuctionJob) -> tuple[Entry, ...]:
        """It is charged at once."""
        return charge(job.owner, job.decision.payment)

    def settlement_entries(self, job: AuctionJob, *, refunded: bool) -> tuple[Entry, ...]:
        """Its price is earned, or given back."""
        return projection.settlement(job.owner, job.decision.payment, refunded=refunded)

    def _began(self, event: ZoneEvent) -> Effects:
        self.slot = event.body["slot"]
        for name, entered in event.body["energy_cost"].items():
            costs = self.energy[name]
            if len(entered) >= self.cluster.slots:
                costs.clear()
            costs += entered
            # A window of past slots is enough for results that come late.
            del costs[: -2 * self.cluster.slots]
            self.energy_first = self.slot + self.cluster.slots - len(costs)
        return Effects()

    def _repaired(self, event: ZoneEvent) -> Effects:
        job = self.jobs[job_of(event)]
        job.repaired = event.body["file"]
        job.size = DataSize.from_record(event.body["size"])
        job.progress = replace(job.progress, total_rows=job.total_rows)
        assert job.repair is not None
        return Effects(
            (self.rows.open(event, job),), vendor_cost(job.repair.vendor, job.repair.price)
        )

    def _vendor_changed(self, event: ZoneEvent) -> Effects:
        job = self.jobs[job_of(event)]
        job.failed_vendors += (event.body["failed"],)
        job.repair = Repair.from_record(event.body["repair"])
        return Effects((self.rows.open(event, job),))

    def _trained(self, event: ZoneEvent) -> Effects:
        job, result = self.jobs[job_of(event)], event.body["result"]
        job.progress = job.progress.after(result)
        job.last_reported_slot = event.body["slot"]
        job.out_of_memory.clear()
        if result["state"] == "done":
            job.phase = Phase.TRAINED
        elif job.phase is Phase.PLANNED:
            job.phase = Phase.TRAINING
        cell = Cell(event.body["slot"], event.body["node"])
        cost = round_money(self.operating_cost(job, cell))
        return Effects((self.rows.open(event, job),), energy_cost(cost))

    def _out_of_memory(self, event: ZoneEvent) -> Effects:
        job = self.jobs[job_of(event)]
        job.out_of_memory.append(event.body["slot"])
        return self._noted(event)

    def _replanned(self, event: ZoneEvent) -> Effects:
        job = self.jobs[job_of(event)]
        gone = set(read_cells(event.body["given_up"]))
        kept = tuple(cell for cell in job.cells if cell not in gone)
        job.cells = tuple(sorted((*kept, *read_cells(event.body["found"]))))
        if job.phase is Phase.PAUSED and event.kind == EventType.RESUMED:
            job.phase = Phase.TRAINING if job.progress.rows else Phase.PLANNED
        return Effects((self.rows.open(event, job),))

    def _paused(self, event: ZoneEvent) -> Effects:
        change = self._replanned(event)
        job = self.jobs[job_of(event)]
        job.phase = Phase.PAUSED
        job.given_up = GivenUp.from_record(event.body["given_up_for"])
        return Effects((self.rows.open(event, job),), change.entries)

    def _node_lost(self, event: ZoneEvent) -> Effects:
        self.lost.add(event.body["node"])
        if event.body["drained"]:
            self.drained.add(event.body["node"])
        return Effects()

    def _node_returned(self, event: ZoneEvent) -> Effects:
        self.lost.discard(event.body["node"])
        self.drained.discard(event.body["node"])
        return Effects()


_HANDLERS: dict[str, Callable[[AuctionState, ZoneEvent], Effects]] = {
    **JOB_REDUCERS,
    EventType.SLOT_BEGAN: AuctionState._began,
    AuctionEventType.REPAIRED: AuctionState._repaired,
    AuctionEventType.VENDOR_CHANGED: AuctionState._vendor_changed,
    EventType.TRAINED: AuctionState._trained,
    EventType.OUT_OF_MEMORY: AuctionState._out_of_memory,
    AuctionEventType.RELEASED: AuctionState._replanned,
    AuctionEventType.REPLANNED: AuctionState._replanned,
    EventType.PAUSED: AuctionState._paused,
    EventType.RESUMED: AuctionState._replanned,
    AuctionEventType.NODE_LOST: AuctionState._node_lost,
    AuctionEventType.NODE_RETURNED: AuctionState._node_returned,
}
