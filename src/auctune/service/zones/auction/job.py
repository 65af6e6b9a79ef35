"""Jobs of an auction zone, their repairs, and records of tasks, clusters and cells."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from auctune.domain import Cell, Cluster, Decision, Money, Node, NodeType, Quote, Task
from auctune.service.datasets.repairer import Repair
from auctune.service.zones.core.job import Phase, SlotJob

Record = dict[str, Any]


def task_record(task: Task) -> Record:
    """All fields of a task; money as text."""
    return {
        "id": task.id,
        "arrival": task.arrival,
        "deadline": task.deadline,
        "work": task.work,
        "memory_gb": task.memory_gb,
        "bid": str(task.bid),
        "throughput": dict(task.throughput),
        "quotes": [
            {"vendor": quote.vendor, "price": str(quote.price), "delay": quote.delay}
            for quote in task.quotes
        ],
        "owner": task.owner,
        "budget": None if task.budget is None else str(task.budget),
    }


def read_task(record: Record) -> Task:
    """The task that `task_record` wrote."""
    return Task(
        id=record["id"],
        arrival=record["arrival"],
        deadline=record["deadline"],
        work=record["work"],
        memory_gb=record["memory_gb"],
        bid=Decimal(record["bid"]),
        throughput=record["throughput"],
        quotes=tuple(
            Quote(quote["vendor"], Decimal(quote["price"]), quote["delay"])
            for quote in record["quotes"]
        ),
        owner=record["owner"],
        budget=None if record["budget"] is None else Decimal(record["budget"]),
    )


def cluster_record(cluster: Cluster) -> Record:
    """All fields of a cluster."""
    return {
        "slots": cluster.slots,
        "slot_seconds": cluster.slot_seconds,
        "base_memory_gb": cluster.base_memory_gb,
        "node_types": {
            name: {
                "compute": kind.compute,
                "memory_gb": kind.memory_gb,
                "energy_cost": list(kind.energy_cost),
            }
            for name, kind in cluster.node_types.items()
        },
        "nodes": [{"id": node.id, "type": node.type} for node in cluster.nodes],
    }


def read_cluster(record: Record) -> Cluster:
    """The cluster that `cluster_record` wrote."""
    return Cluster(
        slots=record["slots"],
        slot_seconds=record["slot_seconds"],
        base_memory_gb=record["base_memory_gb"],
        node_types={
            name: NodeType(kind["compute"], kind["memory_gb"], tuple(kind["energy_cost"]))
            for name, kind in record["node_types"].items()
        },
        nodes=tuple(Node(node["id"], node["type"]) for node in record["nodes"]),
    )


# The repair of a job's data: vendor, price, due slot.


def decided_repair(task: Task, decision: Decision, references: Mapping[str, str]) -> Repair | None:
    """Return the repair that is part of an admission, or None if the data are clean."""
    assert decision.schedule is not None
    vendor = decision.schedule.vendor
    for quote in task.quotes:
        if quote.vendor == vendor:
            ready = task.arrival + quote.delay
            return Repair(vendor, quote.price, ready, references.get(vendor, ""))
    return None


# The open job: what was promised, and its progress.


@dataclass(kw_only=True)
class AuctionJob(SlotJob):
    """An admitted job of an auction zone.

    Attributes:
        task: as it was offered.
        cells: its current plan, past cells included.
        repair: of its data, or None if they are clean.
        failed_repairs: those that vendors failed at before it.
        repaired: id of the repaired file, or None.
    """

    task: Task
    decision: Decision
    cells: tuple[Cell, ...]
    repair: Repair | None = None
    failed_repairs: tuple[Repair, ...] = ()
    repaired: str | None = None

    @property
    def payment(self) -> Money:
        return self.decision.payment

    @property
    def needs_repair(self) -> bool:
        """Return whether its data are still to be repaired."""
        return self.repair is not None and self.repaired is None

    @property
    def work_left(self) -> float:
        """Samples still to be trained; 0 once training is over, even if it ended early."""
        if self.phase is Phase.TRAINED:
            return 0.0
        return (1 - self.size.share_of(self.progress.rows, self.training.epochs)) * self.task.work

    @property
    def failed_vendors(self) -> set[str]:
        return {repair.vendor for repair in self.failed_repairs}

    def cells_from(self, slot: int) -> tuple[Cell, ...]:
        return tuple(cell for cell in self.cells if cell.slot >= slot)

    @property
    def data_ready_slot(self) -> int:
        """The first slot that its data are ready for."""
        return self.task.arrival if self.repair is None else self.repair.ready


def cell_records(cells: tuple[Cell, ...]) -> list[Record]:
    """Cells as plain values."""
    return [{"slot": cell.slot, "node": cell.node} for cell in cells]


def read_cells(records: list[Record]) -> tuple[Cell, ...]:
    """The cells that `cell_records` wrote."""
    return tuple(Cell(record["slot"], record["node"]) for record in records)
