"""Instance files: JSON in, an `Instance` out, and back; docs/reference/instance-files.md.

A file of 20,000 tasks with operating costs of their own over 144 slots (2.9 million numbers) is
read in some seconds, most of them spent in checking and building tasks.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from auctune.atomic_files import AtomicFiles
from auctune.domain import Cluster, InputError, Node, NodeType, Quote, Task, parse_money
from auctune.sim.instance import Instance
from auctune.sim.instance_model import (
    InstanceModel,
    NodeTypeModel,
    QuoteModel,
    TaskModel,
    explain,
)

T = TypeVar("T")


def read_instance(path: Path) -> Instance:
    """The instance in a file.

    Raises:
        InputError: `FILE: tasks[3].deadline: found; expected ...`, for the first thing that is
            wrong.
    """
    try:
        return parse_instance(read_json(path))
    except InputError as error:
        raise error.within(str(path)) from None


def write_instance(instance: Instance, path: Path) -> None:
    """Write a file from which `read_instance` makes an equal instance.

    Raises:
        InputError: if the file cannot be written.
    """
    with AtomicFiles([path]) as (file,):
        json.dump(instance_json(instance), file, ensure_ascii=False, allow_nan=False)
        file.write("\n")


def parse_instance(data: Any) -> Instance:
    """The instance in a JSON value.

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
    """The JSON value of an instance."""
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


def read_json(path: Path) -> Any:
    """What a JSON file holds, each key once in an object and no number infinite.

    Raises:
        InputError: naming what is wrong with the file as a whole.
    """
    try:
        text = path.read_text(encoding="utf-8")
        return json.loads(text, object_pairs_hook=_object, parse_constant=_refuse_constant)
    except OSError as error:
        raise _unreadable(f"cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise _unreadable("is not UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise _unreadable(
            f"is not JSON: {error.msg} in line {error.lineno}, column {error.colno}"
        ) from None
    except RecursionError:
        raise _unreadable("is nested too deeply") from None
    except InputError:
        raise
    except ValueError:  # a number of thousands of digits
        raise _unreadable("holds a number out of range") from None


def _unreadable(found: str) -> InputError:
    return InputError("the file", found, "an instance as JSON")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise InputError("the file", f"has the key {twice!r} twice in one object", "each key once")
    return made


def _refuse_constant(name: str) -> float:
    raise InputError("the file", f"holds {name}", "finite JSON numbers")


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
