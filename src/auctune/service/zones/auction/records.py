"""Tasks, clusters and slots as plain JSON values, and back, without loss."""

from decimal import Decimal
from typing import Any

from auctune.domain import Cluster, Node, NodeType, Quote, Task

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
