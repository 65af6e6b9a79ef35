"""Instances of an edge market, and their files."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from auctune.domain import InputError
from auctune.edge.job import ByDuration, EdgeJob, Logistic, Utility
from auctune.edge.market import EdgeMarket, Site
from auctune.files.atomic import AtomicFiles
from auctune.files.json_file import read_json, write_line
from auctune.sim.instance_file import EXPECTED, show


@dataclass(frozen=True, slots=True)
class EdgeInstance:
    """A market and its jobs.

    Attributes:
        market: the supply, empty.
        jobs: all bids; those of one slot are answered in this order.
        history: bids of earlier days, by whose worth prices begin.
    """

    market: EdgeMarket
    jobs: tuple[EdgeJob, ...]
    history: tuple[EdgeJob, ...] = ()

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for index, job in enumerate(self.jobs):
            if job.id in seen:
                raise InputError(f"jobs[{index}].id", f"{job.id!r} is there twice", "each id once")
            seen.add(job.id)
            try:
                self.market.check(job)
            except InputError as error:
                raise error.within(f"jobs[{index}]") from None

    def in_order(self) -> tuple[EdgeJob, ...]:
        """Return the jobs by arrival."""
        return tuple(sorted(self.jobs, key=lambda job: job.arrival))


# The shape of an edge instance file, and its errors in our own words.
#
# Models check kinds only: keys, JSON types, finite numbers. What values mean is checked where the
# types of `auctune.edge` are made.


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
    history: list[JobModel] = []


_EXPECTED = {
    "slots": "a number of slots >= 1",
    "sites": "a list of sites",
    "traffic_mb_per_slot": "MB > 0",
    "chunk_mb": "MB >= 0",
    "price_base": "an object: numbers > 1 by resource type, and of data",
    "jobs": "a list of jobs",
    "history": "a list of jobs",
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
    """Return the first thing that is wrong, in one line."""
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


T = TypeVar("T")


def read_edge_instance(path: Path) -> EdgeInstance:
    """Return the instance in a file.

    Raises:
        InputError: `FILE: jobs[3].arrival: found; expected ...`, for the first thing that is wrong.
    """
    try:
        return parse_edge_instance(read_json(path, EXPECTED))
    except InputError as error:
        raise error.within(str(path)) from None


def write_edge_instance(instance: EdgeInstance, path: Path) -> None:
    """Write a file from which `read_edge_instance` makes an equal instance.

    Raises:
        InputError: if the file cannot be written.
    """
    with AtomicFiles([path]) as (file,):
        write_line(edge_instance_json(instance), file)


def parse_edge_instance(data: Any) -> EdgeInstance:
    """Return the instance in a JSON value.

    Raises:
        InputError: naming the field.
    """
    model = _validated(EdgeInstanceModel, data)
    market = EdgeMarket(
        slots=model.slots,
        sites=tuple(
            _placed(f"sites[{index}]", _site, site) for index, site in enumerate(model.sites)
        ),
        traffic_mb_per_slot=model.traffic_mb_per_slot,
        chunk_mb=model.chunk_mb,
        price_base=model.price_base,
    )
    jobs, history = (
        tuple(_placed(f"{name}[{index}]", _job, job) for index, job in enumerate(models))
        for name, models in (("jobs", model.jobs), ("history", model.history))
    )
    return EdgeInstance(market, jobs, history)


def edge_instance_json(instance: EdgeInstance) -> dict[str, Any]:
    """Return the JSON value of an instance."""
    market = instance.market
    return {
        "slots": market.slots,
        "sites": [{"id": site.id, "capacity": dict(site.capacity)} for site in market.sites],
        "traffic_mb_per_slot": market.traffic_mb_per_slot,
        "chunk_mb": market.chunk_mb,
        "price_base": dict(market.price_base),
        "jobs": [edge_job_json(job) for job in instance.jobs],
        **(
            {"history": [edge_job_json(job) for job in instance.history]}
            if instance.history
            else {}
        ),
    }


def parse_edge_job(data: Any) -> EdgeJob:
    """Return the job that `edge_job_json` gave.

    Raises:
        InputError: naming the field.
    """
    return _job(_validated(JobModel, data))


def edge_job_json(job: EdgeJob) -> dict[str, Any]:
    """Return the JSON value of a job."""
    return {
        "id": job.id,
        "arrival": job.arrival,
        "epochs": job.epochs,
        "chunks": dict(job.chunks),
        "worker": dict(job.worker),
        "server": dict(job.server),
        "chunks_per_worker_slot": job.chunks_per_worker_slot,
        "parameter_mb": job.parameter_mb,
        "utility": _utility_json(job.utility),
    }


def _utility_json(utility: Utility) -> dict[str, Any]:
    if isinstance(utility, Logistic):
        return {"form": "logistic", "scale": utility.scale, "decay": utility.decay}
    if isinstance(utility, ByDuration):
        return {"form": "table", "values": list(utility.values)}
    raise InputError("utility", f"is a {type(utility).__name__}", "a Logistic or a ByDuration")


def _site(model: SiteModel) -> Site:
    return Site(model.id, model.capacity)


def _job(model: JobModel) -> EdgeJob:
    return EdgeJob(
        id=model.id,
        arrival=model.arrival,
        epochs=model.epochs,
        chunks=model.chunks,
        worker=model.worker,
        server=model.server,
        chunks_per_worker_slot=model.chunks_per_worker_slot,
        parameter_mb=model.parameter_mb,
        utility=_placed("utility", _utility, model.utility),
    )


def _utility(data: dict[str, Any]) -> Utility:
    match data.get("form"):
        case "logistic":
            logistic = _validated(LogisticModel, data)
            return Logistic(logistic.scale, logistic.decay)
        case "table":
            return ByDuration(tuple(_validated(TableModel, data).values))
        case other:
            raise InputError("form", f"{other!r}", "logistic or table")


M = TypeVar("M", bound=BaseModel)


def _validated(kind: type[M], data: Any) -> M:
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        raise explain(error) from None


def _placed(place: str, make: Callable[[Any], T], model: Any) -> T:
    """`make(model)`, with errors that name the whole path to the field."""
    try:
        return make(model)
    except InputError as error:
        raise InputError(f"{place}.{error.place}", error.found, error.expected) from None
