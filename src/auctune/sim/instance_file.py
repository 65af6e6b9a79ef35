"""Instance files: a cluster and its bids as JSON; docs/reference/instance-file.md."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from auctune.domain import Cluster, InputError, Node, NodeType, Quote, Task, parse_money
from auctune.files.atomic import AtomicFiles
from auctune.files.json_file import read_json, write_line
from auctune.sim.instance import Instance

# The shape of an instance file, and its errors in our own words.
#
# Models check kinds only: keys, JSON types, finite numbers. What values mean is checked where the
# domain's types are made.


EXPECTED = "an instance as JSON"
Number = int | float


class _Model(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, frozen=True)


class QuoteModel(_Model):
    """A vendor's quote."""

    vendor: str
    price: Number
    delay: int


class TaskModel(_Model):
    """A bid."""

    id: str
    arrival: int
    deadline: int
    work: float
    memory_gb: float
    bid: Number
    throughput: dict[str, float]
    quotes: list[QuoteModel] | None = None
    operating_cost: dict[str, list[float]] | None = None


class NodeModel(_Model):
    """A node."""

    id: str
    type: str


class NodeTypeModel(_Model):
    """What nodes of a type have in common."""

    compute: float
    memory_gb: float
    energy_cost: list[float]
    real_energy_cost: list[float] | None = None


class InstanceModel(_Model):
    """A whole file."""

    slots: int
    slot_seconds: float
    base_memory_gb: float
    node_types: dict[str, NodeTypeModel]
    nodes: list[NodeModel]
    tasks: list[TaskModel]


_EXPECTED = {
    "slots": "a number of slots >= 1",
    "slot_seconds": "seconds > 0",
    "base_memory_gb": "GB >= 0",
    "node_types": "an object: node types by name",
    "nodes": "a list of nodes",
    "tasks": "a list of tasks",
    "compute": "samples per slot > 0",
    "memory_gb": "a number of GB",
    "energy_cost": "a list of money per slot >= 0, one a slot",
    "real_energy_cost": "a list of money per slot, one a slot",
    "id": "a name",
    "type": "the name of a node type",
    "arrival": "a slot >= 0",
    "deadline": "a slot >= arrival",
    "work": "samples > 0",
    "bid": "an amount of money >= 0 with at most 4 decimals",
    "price": "an amount of money >= 0 with at most 4 decimals",
    "throughput": "an object: samples per slot by node type",
    "quotes": "a list of quotes",
    "operating_cost": "an object: a list of money per slot by node type",
    "vendor": "a name",
    "delay": "a number of slots >= 0",
}
_MODELS: Mapping[str, type[BaseModel]] = {
    "nodes": NodeModel,
    "node_types": NodeTypeModel,
    "tasks": TaskModel,
    "quotes": QuoteModel,
}
_ELEMENTS = {
    "energy_cost": "money per slot >= 0",
    "real_energy_cost": "money per slot",
    "operating_cost": "a list of money per slot >= 0, one a slot",
    "throughput": "samples per slot > 0",
}

Location = tuple[int | str, ...]


def explain(error: ValidationError) -> InputError:
    """Return the first thing that is wrong, in one line."""
    first = error.errors(include_url=False)[0]
    model, path = _innermost(first["loc"])
    outer = first["loc"][: len(first["loc"]) - len(path)]
    if path and path[0] in ("bid", "price"):
        # pydantic goes on with the kinds of number that it tried.
        path = path[:1]
    place = _place(outer + path)
    if first["type"] == "extra_forbidden":
        return InputError(place, "is no field of the format", f"one of {_fields(model)}")
    found = "is missing" if first["type"] == "missing" else show(first["input"])
    return InputError(place, found, _expected(model, path))


def _innermost(loc: Location) -> tuple[type[BaseModel], Location]:
    """Return the model in which a location lies, and the path within it."""
    model: type[BaseModel] = InstanceModel
    while len(loc) > 1 and loc[0] in _MODELS:
        model, loc = _MODELS[str(loc[0])], loc[2:]
    return model, loc


def _place(loc: Location) -> str:
    parts = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc)
    return parts.removeprefix(".") or "the file"


def _expected(model: type[BaseModel], path: Location) -> str:
    if not path:
        return f"an object with {_fields(model)}"
    if len(path) == 1:
        return _EXPECTED[str(path[0])]
    return _ELEMENTS["energy_cost" if len(path) > 2 else str(path[0])]


def _fields(model: type[BaseModel]) -> str:
    return ", ".join(model.model_fields)


def show(value: Any) -> str:
    """Return what was found in a file, in a few words."""
    if isinstance(value, dict | list):
        return "is an object" if isinstance(value, dict) else "is a list"
    if value is None or isinstance(value, bool):
        return "is null" if value is None else f"is {str(value).lower()}"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


# Instance files: JSON in, an `Instance` out, and back; docs/reference/instance-files.md.
#
# A file of 20,000 tasks with operating costs of their own over 144 slots (2.9 million numbers) is
# read in some seconds, most of them spent in checking and building tasks.

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
    try:
        model = InstanceModel.model_validate(data)
    except ValidationError as error:
        raise explain(error) from None
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
        name: _placed(f"node_types.{name}", _node_type, kind)
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
    return _placed(f"tasks[{index}]", _make_task, model)


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
            _placed(f"quotes[{i}]", _quote, quote) for i, quote in enumerate(model.quotes or ())
        ),
        operating_cost=own_cost and {name: tuple(cost) for name, cost in own_cost.items()},
    )


def _quote(model: QuoteModel) -> Quote:
    return Quote(model.vendor, parse_money(model.price, "price"), model.delay)


def _placed(place: str, make: Callable[[Any], T], model: Any) -> T:
    """`make(model)`, with errors that name the whole path to the field."""
    try:
        return make(model)
    except InputError as error:
        raise InputError(f"{place}.{error.place}", error.found, error.expected) from None
