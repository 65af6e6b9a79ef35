"""The shape of an instance file, and its errors in our own words.

Models check kinds only: keys, JSON types, finite numbers. What values mean is checked where the
domain's types are made.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from auctune.domain import InputError

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
    """The first thing that is wrong, in one line."""
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
    """The model in which a location lies, and the path within it."""
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
    """What was found in a file, in a few words."""
    if isinstance(value, dict | list):
        return "is an object" if isinstance(value, dict) else "is a list"
    if value is None or isinstance(value, bool):
        return "is null" if value is None else f"is {str(value).lower()}"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
