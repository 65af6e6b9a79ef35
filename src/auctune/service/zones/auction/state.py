"""What a zone has come to: a fold over its events.

The live path and a restart apply events by the same function. In memory are open jobs only; what
each event changes for readers is handed back, to be stored with it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from auctune.domain import Cell, Cluster, round_money
from auctune.run.records import read_decision
from auctune.service.jobs.size import DataSize
from auctune.service.jobs.training import Training
from auctune.service.ledger.entry import charge, earn, operation, refund, vendor_work
from auctune.service.zones.auction.event import AuctionKind
from auctune.service.zones.auction.job_rows import closed_row, nothing_own, open_row
from auctune.service.zones.auction.open_job import OpenJob, Phase, Progress, read_cells
from auctune.service.zones.auction.records import read_task
from auctune.service.zones.auction.repair import Repair, decided_repair
from auctune.service.zones.change import Change
from auctune.service.zones.event import Kind, ZoneEvent
from auctune.service.zones.fold import apply
from auctune.service.zones.job_row import Status
from auctune.service.zones.received import Received, receive


@dataclass
class ZoneState:
    """Open jobs of a zone, and what its slots cost.

    Attributes:
        cluster: the supply.
        seq: of the newest event applied.
        slot: the newest slot that began; -1 before the first.
        received: jobs that wait for a decision, by id.
        jobs: admitted jobs that are not over, by id.
        lost: nodes that are not for sale: their process is lost, or an operator drained them.
        drained: those among them that an operator drained.
        energy: by node type, money at full load for each slot from `energy_first` on.
        energy_first: slot of the first of them.
    """

    cluster: Cluster
    seq: int = 0
    slot: int = -1
    received: dict[str, Received] = field(default_factory=dict)
    jobs: dict[str, OpenJob] = field(default_factory=dict)
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
            job.newest = event.seq
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

    def _received(self, event: ZoneEvent) -> Change:
        return receive(self.received, event, nothing_own())

    def _decided(self, event: ZoneEvent) -> Change:
        body = event.body
        waiting = self.received.pop(_id(event), None)
        decision = read_decision(body["decision"])
        seq = event.seq if waiting is None else waiting.seq
        created_at = event.at if waiting is None else waiting.created_at
        if decision.schedule is None:
            return Change(rows=(closed_row(event, seq, created_at, Status.FAILED),))
        size, task = DataSize(**body["size"]), read_task(body["task"])
        job = OpenJob(
            id=_id(event),
            seq=seq,
            owner=body["owner"],
            training=Training.from_record(body["training"]),
            task=task,
            decision=decision,
            cells=decision.schedule.cells,
            size=size,
            created_at=created_at,
            request=body["request"],
            repair=decided_repair(task, decision, body.get("offers", {})),
        )
        job.progress.total_rows = job.total_rows
        self.jobs[job.id] = job
        return Change((open_row(job, event),), charge(job.owner, decision.payment))

    def _repaired(self, event: ZoneEvent) -> Change:
        job = self.jobs[_id(event)]
        job.repaired = event.body["file"]
        job.size = DataSize(**event.body["size"])
        job.progress.total_rows = job.total_rows
        assert job.repair is not None
        return Change((open_row(job, event),), vendor_work(job.repair.vendor, job.repair.price))

    def _vendor_changed(self, event: ZoneEvent) -> Change:
        job = self.jobs[_id(event)]
        job.failed_vendors += (event.body["failed"],)
        job.repair = Repair.from_record(event.body["repair"])
        return Change((open_row(job, event),))

    def _trained(self, event: ZoneEvent) -> Change:
        job, result = self.jobs[_id(event)], event.body["result"]
        before = job.progress
        losses = result["losses"]
        job.progress = Progress(
            rows=result["rows"],
            total_rows=result["total_rows"],
            tokens=result["tokens"],
            steps=result["steps"],
            first_loss=before.first_loss if before.steps or not losses else losses[0][3],
            last_loss=losses[-1][3] if losses else before.last_loss,
        )
        job.answered = event.body["slot"]
        if result["state"] == "done":
            job.phase = Phase.TRAINED
        elif job.phase is Phase.PLANNED:
            job.phase = Phase.TRAINING
        cell = Cell(event.body["slot"], event.body["node"])
        cost = round_money(self.operating_cost(job, cell))
        return Change((open_row(job, event),), operation(cost))

    def _replanned(self, event: ZoneEvent) -> Change:
        job = self.jobs[_id(event)]
        gone = set(read_cells(event.body["given_up"]))
        kept = tuple(cell for cell in job.cells if cell not in gone)
        job.cells = tuple(sorted((*kept, *read_cells(event.body["found"]))))
        if job.phase is Phase.PAUSED and event.kind == Kind.RESUMED:
            job.phase = Phase.TRAINING if job.progress.rows else Phase.PLANNED
        return Change((open_row(job, event),))

    def _paused(self, event: ZoneEvent) -> Change:
        change = self._replanned(event)
        job = self.jobs[_id(event)]
        job.phase = Phase.PAUSED
        return Change((open_row(job, event),), change.entries)

    def _noted(self, event: ZoneEvent) -> Change:
        job = self.jobs.get(_id(event))
        if job is None:
            return Change()
        job.notes.append(event.body["text"])
        return Change((open_row(job, event),))

    def _cancelled(self, event: ZoneEvent) -> Change:
        return self._close(event, Status.CANCELLED, refunded=False)

    def _finished(self, event: ZoneEvent) -> Change:
        return self._close(event, Status.SUCCEEDED, refunded=False)

    def _failed(self, event: ZoneEvent) -> Change:
        return self._close(event, Status.FAILED, refunded=event.body["refund"])

    def _close(self, event: ZoneEvent, status: Status, *, refunded: bool) -> Change:
        waiting = self.received.pop(_id(event), None)
        if waiting is not None:
            return Change((closed_row(event, waiting.seq, waiting.created_at, status, waiting),))
        job = self.jobs.pop(_id(event))
        payment = job.decision.payment
        entries = refund(job.owner, payment) if refunded else earn(payment)
        return Change((closed_row(event, job.seq, job.created_at, status, job),), entries)

    def _node_lost(self, event: ZoneEvent) -> Change:
        self.lost.add(event.body["node"])
        if event.body["drained"]:
            self.drained.add(event.body["node"])
        return Change()

    def _node_returned(self, event: ZoneEvent) -> Change:
        self.lost.discard(event.body["node"])
        self.drained.discard(event.body["node"])
        return Change()


def _id(event: ZoneEvent) -> str:
    assert event.job is not None
    return event.job


_HANDLERS: dict[str, Callable[[ZoneState, ZoneEvent], Change]] = {
    Kind.SLOT_BEGAN: ZoneState._began,
    Kind.RECEIVED: ZoneState._received,
    Kind.DECIDED: ZoneState._decided,
    AuctionKind.REPAIRED: ZoneState._repaired,
    AuctionKind.VENDOR_CHANGED: ZoneState._vendor_changed,
    Kind.TRAINED: ZoneState._trained,
    AuctionKind.RELEASED: ZoneState._replanned,
    AuctionKind.REPLANNED: ZoneState._replanned,
    Kind.PAUSED: ZoneState._paused,
    Kind.RESUMED: ZoneState._replanned,
    Kind.JOB_NOTED: ZoneState._noted,
    Kind.CANCELLED: ZoneState._cancelled,
    Kind.FINISHED: ZoneState._finished,
    Kind.FAILED: ZoneState._failed,
    AuctionKind.NODE_LOST: ZoneState._node_lost,
    AuctionKind.NODE_RETURNED: ZoneState._node_returned,
}
