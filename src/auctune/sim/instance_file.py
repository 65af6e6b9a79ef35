"""Instance files: a cluster and its bids as JSON; docs/reference/instance-files.md.

A file of 20,000 tasks with operating costs of their own over 144 slots (2.9 million numbers) is
read in some seconds, most of them spent in checking and building tasks.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

from auctune.domain import Cluster, InputError, Node, NodeType, Quote, Task, parse_money
from auctune.files.atomic import AtomicFiles
from auctune.files.json_file import read_json, write_line
from auctune.files.schema import Expected, FileModel, check_file
from auctune.sim.instance import Instance

# Models check kinds only: keys, JSON types, finite numbers. What values mean is checked where the
# domain's types are made.

EXPECTED = "an instance as JSON"
Name = Annotated[str, Expected("a name")]
Slots = Annotated[int, Expected("a number of slots >= 0")]
Money = Annotated[int | float, Expected("an amount of money >= 0 with at most 4 decimals")]
CostOfSlot = Annotated[float, Expected("money per slot >= 0")]


class QuoteModel(FileModel):
    """A vendor's quote."""

    vendor: Name
    price: Money
    delay: Slots


class TaskModel(FileModel):
    """A bid."""

    id: Name
    arrival: Annotated[int, Expected("a slot >= 0")]
    deadline: Annotated[int, Expected("a slot >= arrival")]
    work: Annotated[float, Expected("samples > 0")]
    memory_gb: Annotated[float, Expected("a number of GB")]
    bid: Money
    throughput: Annotated[
        dict[str, Annotated[float, Expected("samples per slot > 0")]],
        Expected("an object: samples per slot by node type"),
    ]
    quotes: Annotated[list[QuoteModel] | None, Expected("a list of quotes")] = None
    operating_cost: Annotated[
        dict[
            str,
            Annotated[list[CostOfSlot], Expected("a list of money per slot >= 0, one a slot")],
        ]
        | None,
        Expected("an object: a list of money per slot by node type"),
    ] = None


class NodeModel(FileModel):
    """A node."""

    id: Name
    type: Annotated[str, Expected("the name of a node type")]


class NodeTypeModel(FileModel):
    """What nodes of a type have in common."""

    compute: Annotated[float, Expected("samples per slot > 0")]
    memory_gb: Annotated[float, Expected("a number of GB")]
    energy_cost: Annotated[list[CostOfSlot], Expected("a list of money per slot >= 0, one a slot")]
    real_energy_cost: Annotated[
        list[Annotated[float, Expected("money per slot")]] | None,
        Expected("a list of money per slot, one a slot"),
    ] = None


class InstanceModel(FileModel):
    """A whole file."""

    slots: Annotated[int, Expected("a number of slots >= 1")]
    slot_seconds: Annotated[float, Expected("seconds > 0")]
    base_memory_gb: Annotated[float, Expected("GB >= 0")]
    node_types: Annotated[dict[str, NodeTypeModel], Expected("an object: node types by name")]
    nodes: Annotated[list[NodeModel], Expected("a list of nodes")]
    tasks: Annotated[list[TaskModel], Expected("a list of tasks")]


T = TypeVar("T")


def read_instance(path: Path) -> Instance:
    """Return the instance in a file.

    Raises:
        InputError: `FILE: tasks[3].deadline: found; expected ...`, for the first thing that is
            wrong.
    """
    try:
        return parse_instance(read_json(path, EXPECTED))
    except InputError as error:
        raise error.within(str(path)) from None


def write_instance(instance: Instance, path: Path) -> None:
    """Write a file from which `read_instance` makes an equal instance.

    Raises:
        InputError: if the file cannot be written.
    """
    with AtomicFiles([path]) as (file,):
        write_line(instance_json(instance), file)


def parse_instance(data: Any) -> Instance:
    """Return the instance in a JSON value.

    Raises:
        InputError: naming the field.
    """
    model = check_file(InstanceModel, data)
    return Instance(
        _cluster(model),
        tuple(_task(task, index) for index, task in enumerate(model.tasks)),
        _real_energy_cost(model),
    )


def instance_json(instance: Instance) -> dict[str, Any]:
    """Return the JSON value of an instance."""
    cluster = instance.cluster
    return {
        "slots": cluster.slots,
        "slot_seconds": cluster.slot_seconds,
        "base_memory_gb": cluster.base_memory_gb,
        "node_types": {
            name: _node_type_json(kind, (instance.real_energy_cost or {}).get(name))
            for name, kind in cluster.node_types.items()
        },
        "nodes": [{"id": node.id, "type": node.type} for node in cluster.nodes],
        "tasks": [_task_json(task) for task in instance.tasks],
    }


def _node_type_json(kind: NodeType, real_cost: Sequence[float] | None) -> dict[str, Any]:
    data: dict[str, Any] = {
        "compute": kind.compute,
        "memory_gb": kind.memory_gb,
        "energy_cost": list(kind.energy_cost),
    }
    if real_cost is not None:
        data["real_energy_cost"] = list(real_cost)
    return data


def _task_json(task: Task) -> dict[str, Any]:
    # Fewer than 16 digits: a float's shortest form gives each amount of money back exactly.
    data: dict[str, Any] = {
        "id": task.id,
        "arrival": task.arrival,
        "deadline": task.deadline,
        "work": task.work,
        "memory_gb": task.memory_gb,
        "bid": float(task.bid),
        "throughput": dict(task.throughput),
        "quotes": [
            {"vendor": quote.vendor, "price": float(quote.price), "delay": quote.delay}
            for quote in task.quotes
        ],
    }
    if task.operating_cost is not None:
        data["operating_cost"] = {name: list(cost) for name, cost in task.operating_cost.items()}
    return data


def _cluster(model: InstanceModel) -> Cluster:
    types = {
        name: placed(f"node_types.{name}", _node_type, kind)
        for name, kind in model.node_types.items()
    }
    return Cluster(
        slots=model.slots,
        slot_seconds=model.slot_seconds,
        base_memory_gb=model.base_memory_gb,
        node_types=types,
        nodes=tuple(Node(node.id, node.type) for node in model.nodes),
    )


def _real_energy_cost(model: InstanceModel) -> dict[str, tuple[float, ...]] | None:
    """By node type, where the file has them at all."""
    costs = {
        name: tuple(kind.real_energy_cost)
        for name, kind in model.node_types.items()
        if kind.real_energy_cost is not None
    }
    return costs or None


def _node_type(model: NodeTypeModel) -> NodeType:
    return NodeType(model.compute, model.memory_gb, tuple(model.energy_cost))


def _task(model: TaskModel, index: int) -> Task:
    return placed(f"tasks[{index}]", _make_task, model)


def _make_task(model: TaskModel) -> Task:
    own_cost = model.operating_cost
    return Task(
        id=model.id,
        arrival=model.arrival,
        deadline=model.deadline,
        work=model.work,
        memory_gb=model.memory_gb,
        bid=parse_money(model.bid, "bid"),
        throughput=model.throughput,
        quotes=tuple(
            placed(f"quotes[{i}]", _quote, quote) for i, quote in enumerate(model.quotes or ())
        ),
        operating_cost=own_cost and {name: tuple(cost) for name, cost in own_cost.items()},
    )


def _quote(model: QuoteModel) -> Quote:
    return Quote(model.vendor, parse_money(model.price, "price"), model.delay)


def placed(place: str, make: Callable[[Any], T], model: Any) -> T:
    """`make(model)`, with errors that name the whole path to the field."""
    try:
        return make(model)
    except InputError as error:
        raise InputError(f"{place}.{error.place}", error.found, error.expected) from None
