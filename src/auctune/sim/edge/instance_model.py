"""The shape of an edge instance file, and its errors in our own words.

Models check kinds only: keys, JSON types, finite numbers. What values mean is checked where the
types of `auctune.edge` are made.
"""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from auctune.domain import InputError
from auctune.sim.instance_model import show

Number = int | float


class _Model(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, frozen=True)


class SiteModel(_Model):
    """A site."""

    id: str
    capacity: dict[str, float]


class LogisticModel(_Model):
    """scale / (1 + exp(duration / decay))."""

    form: Literal["logistic"]
    scale: float
    decay: float


class TableModel(_Model):
    """A value for each duration."""

    form: Literal["table"]
    values: list[float]


class JobModel(_Model):
    """A bid."""

    id: str
    arrival: int
    epochs: int
    chunks: dict[str, int]
    worker: dict[str, float]
    server: dict[str, float]
    chunks_per_worker_slot: float
    parameter_mb: float
    utility: dict[str, Any]


class EdgeInstanceModel(_Model):
    """A whole file."""

    slots: int
    sites: list[SiteModel]
    traffic_mb_per_slot: float
    chunk_mb: float
    price_base: dict[str, float] = {}
    jobs: list[JobModel]


_EXPECTED = {
    "slots": "a number of slots >= 1",
    "sites": "a list of sites",
    "traffic_mb_per_slot": "MB > 0",
    "chunk_mb": "MB >= 0",
    "price_base": "an object: numbers > 1 by resource type, and of data",
    "jobs": "a list of jobs",
    "id": "a name",
    "capacity": "an object: units by resource type",
    "arrival": "a slot >= 0",
    "epochs": "a whole number >= 1",
    "chunks": "an object: numbers of chunks by site",
    "worker": "an object: units by resource type",
    "server": "an object: units by resource type",
    "chunks_per_worker_slot": "chunks > 0",
    "parameter_mb": "MB >= 0",
    "utility": 'an object with "form": "logistic" or "table"',
    "form": "logistic or table",
    "scale": "money >= 0",
    "decay": "slots > 0",
    "values": "a list of money by duration, none rising",
}


def explain(error: ValidationError, outer: str = "") -> InputError:
    """The first thing that is wrong, in one line."""
    first = error.errors(include_url=False)[0]
    place = outer
    for part in first["loc"]:
        place += f"[{part}]" if isinstance(part, int) else f"{'.' if place else ''}{part}"
    names = [part for part in first["loc"] if isinstance(part, str) and part in _EXPECTED]
    expected = _EXPECTED[names[-1]] if names else "an object with slots, sites, jobs"
    if first["type"] == "extra_forbidden":
        return InputError(place, "is no field of the format", "none of that name")
    if first["type"] == "missing":
        return InputError(place, "is missing", expected)
    return InputError(place or "the file", show(first["input"]), expected)
