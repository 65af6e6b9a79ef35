"""What an auction's zone has come to: a fold over its events."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from auctune.domain import Cell, Cluster, round_money
from auctune.domain.data_size import DataSize
from auctune.run.records import read_decision
from auctune.service.ledger import Entry, charge, energy_cost, vendor_cost
from auctune.service.zones import fixed_price
from auctune.service.zones.auction.event import AuctionKind
from auctune.service.zones.auction.job_rows import ROWS, AuctionRows
from auctune.service.zones.auction.open_job import OpenJob, read_cells
from auctune.service.zones.auction.records import read_task
from auctune.service.zones.auction.repair import Repair, decided_repair
from auctune.service.zones.change import Change
from auctune.service.zones.event import Kind, ZoneEvent, job_of
from auctune.service.zones.fold import apply
from auctune.service.zones.phase import Phase
from auctune.service.zones.progress import Progress
from auctune.service.zones.received import Received
from auctune.service.zones.slotted import GivenUp
from auctune.service.zones.state import OF_JOBS, JobsState


@dataclass
class ZoneState(JobsState[OpenJob]):
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

    def apply(self, event: ZoneEvent) -> Change:
        """Take over what happened."""
        change = apply(_HANDLERS, self, event)
        job = None if event.job is None else self.jobs.get(event.job)
        if job is not None:
            job.last_event_seq = event.seq
        return change

    def cells_of(self, slot: int) -> dict[str, list[OpenJob]]:
        """Jobs that have a cell in a slot, by node, in the order in which they were admitted."""
        found: dict[str, list[OpenJob]] = {}
        for job in self.jobs.values():
            for cell in job.cells:
                if cell.slot == slot:
                    found.setdefault(cell.node, []).append(job)
        return found

    def node_type(self, node: str) -> str:
        """The type of a node."""
        return self._types[node]

    def operating_cost(self, job: OpenJob, cell: Cell) -> float:
        """Money for the energy that a job takes in a cell."""
        kind = self._types[cell.node]
        share = job.task.throughput[kind] / self.cluster.node_types[kind].compute
        offset = cell.slot - self.energy_first
        costs = self.energy[kind]
        return share * (costs[offset] if 0 <= offset < len(costs) else 0.0)

    @property
    def rows(self) -> AuctionRows:
        """Makes rows of its jobs."""
        return ROWS

    def admit(self, event: ZoneEvent, asked: Received) -> OpenJob:
        """A job that an event admits."""
        body, decision = event.body, read_decision(event.body["decision"])
        task = read_task(body["task"])
        assert decision.schedule is not None
        job = OpenJob(
            **vars(asked),
            task=task,
            decision=decision,
            cells=decision.schedule.cells,
            size=DataSize.from_record(body["size"]),
            repair=decided_repair(task, decision, body.get("offers", {})),
        )
        job.progress = Progress(total_rows=job.total_rows)
        return job

    def admission_entries(self, job: OpenJob) -> tuple[Entry, ...]:
        """It is charged at once."""
        return charge(job.owner, job.decision.payment)

    def settlement_entries(self, job: OpenJob, *, refunded: bool) -> tuple[Entry, ...]:
        """Its price is earned, or given back."""
        return fixed_price.end(job.owner, job.decision.payment, refunded=refunded)

    def _began(self, event: ZoneEvent) -> Change:
        self.slot = event.body["slot"]
        for name, entered in event.body["energy_cost"].items():
            costs = self.energy[name]
            if len(entered) >= self.cluster.slots:
                costs.clear()
            costs += entered
            # A window of past slots is enough for results that come late.
            del costs[: -2 * self.cluster.slots]
            self.energy_first = self.slot + self.cluster.slots - len(costs)
        return Change()

    def _repaired(self, event: ZoneEvent) -> Change:
        job = self.jobs[job_of(event)]
        job.repaired = event.body["file"]
        job.size = DataSize.from_record(event.body["size"])
        job.progress = replace(job.progress, total_rows=job.total_rows)
        assert job.repair is not None
        return Change(
            (self.rows.open(event, job),), vendor_cost(job.repair.vendor, job.repair.price)
        )

    def _vendor_changed(self, event: ZoneEvent) -> Change:
        job = self.jobs[job_of(event)]
        job.failed_vendors += (event.body["failed"],)
        job.repair = Repair.from_record(event.body["repair"])
        return Change((self.rows.open(event, job),))

    def _trained(self, event: ZoneEvent) -> Change:
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
        return Change((self.rows.open(event, job),), energy_cost(cost))

    def _out_of_memory(self, event: ZoneEvent) -> Change:
        job = self.jobs[job_of(event)]
        job.out_of_memory.append(event.body["slot"])
        return self._noted(event)

    def _replanned(self, event: ZoneEvent) -> Change:
        job = self.jobs[job_of(event)]
        gone = set(read_cells(event.body["given_up"]))
        kept = tuple(cell for cell in job.cells if cell not in gone)
        job.cells = tuple(sorted((*kept, *read_cells(event.body["found"]))))
        if job.phase is Phase.PAUSED and event.kind == Kind.RESUMED:
            job.phase = Phase.TRAINING if job.progress.rows else Phase.PLANNED
        return Change((self.rows.open(event, job),))

    def _paused(self, event: ZoneEvent) -> Change:
        change = self._replanned(event)
        job = self.jobs[job_of(event)]
        job.phase = Phase.PAUSED
        job.given_up = GivenUp.from_record(event.body["given_up_for"])
        return Change((self.rows.open(event, job),), change.entries)

    def _node_lost(self, event: ZoneEvent) -> Change:
        self.lost.add(event.body["node"])
        if event.body["drained"]:
            self.drained.add(event.body["node"])
        return Change()

    def _node_returned(self, event: ZoneEvent) -> Change:
        self.lost.discard(event.body["node"])
        self.drained.discard(event.body["node"])
        return Change()


_HANDLERS: dict[str, Callable[[ZoneState, ZoneEvent], Change]] = {
    **OF_JOBS,
    Kind.SLOT_BEGAN: ZoneState._began,
    AuctionKind.REPAIRED: ZoneState._repaired,
    AuctionKind.VENDOR_CHANGED: ZoneState._vendor_changed,
    Kind.TRAINED: ZoneState._trained,
    Kind.OUT_OF_MEMORY: ZoneState._out_of_memory,
    AuctionKind.RELEASED: ZoneState._replanned,
    AuctionKind.REPLANNED: ZoneState._replanned,
    Kind.PAUSED: ZoneState._paused,
    Kind.RESUMED: ZoneState._replanned,
    AuctionKind.NODE_LOST: ZoneState._node_lost,
    AuctionKind.NODE_RETURNED: ZoneState._node_returned,
}
