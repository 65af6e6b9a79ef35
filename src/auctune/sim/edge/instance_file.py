"""Instances of an edge market, and their files."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from auctune.domain import InputError
from auctune.edge.job import ByDuration, EdgeJob, Logistic, Utility
from auctune.edge.market import EdgeMarket, Site
from auctune.files.atomic import AtomicFiles
from auctune.files.json_file import read_json, write_line
from auctune.files.schema import Expected, FileModel, check_file, check_schema
from auctune.sim.instance_file import EXPECTED, placed


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


# Models check kinds only: keys, JSON types, finite numbers. What values mean is checked where the
# types of `auctune.edge` are made.

Name = Annotated[str, Expected("a name")]
Units = Annotated[
    dict[str, Annotated[float, Expected("units >= 0")]],
    Expected("an object: units by resource type"),
]


class SiteModel(FileModel):
    """A site."""

    id: Name
    capacity: Units


class LogisticModel(FileModel):
    """scale / (1 + exp(duration / decay))."""

    form: Literal["logistic"]
    scale: Annotated[float, Expected("money >= 0")]
    decay: Annotated[float, Expected("slots > 0")]


class TableModel(FileModel):
    """A value for each duration."""

    form: Literal["table"]
    values: Annotated[
        list[Annotated[float, Expected("money")]],
        Expected("a list of money by duration, none rising"),
    ]


class JobModel(FileModel):
    """A bid."""

    id: Name
    arrival: Annotated[int, Expected("a slot >= 0")]
    epochs: Annotated[int, Expected("a whole number >= 1")]
    chunks: Annotated[
        dict[str, Annotated[int, Expected("a number of chunks")]],
        Expected("an object: numbers of chunks by site"),
    ]
    worker: Units
    server: Units
    chunks_per_worker_slot: Annotated[float, Expected("chunks > 0")]
    parameter_mb: Annotated[float, Expected("MB >= 0")]
    utility: Annotated[dict[str, Any], Expected('an object with "form": "logistic" or "table"')]


class EdgeInstanceModel(FileModel):
    """A whole file."""

    slots: Annotated[int, Expected("a number of slots >= 1")]
    sites: Annotated[list[SiteModel], Expected("a list of sites")]
    traffic_mb_per_slot: Annotated[float, Expected("MB > 0")]
    chunk_mb: Annotated[float, Expected("MB >= 0")]
    price_base: Annotated[
        dict[str, Annotated[float, Expected("a number > 1")]],
        Expected("an object: numbers > 1 by resource type, and of data"),
    ] = Field(default_factory=dict)
    jobs: Annotated[list[JobModel], Expected("a list of jobs")]
    history: Annotated[list[JobModel], Expected("a list of jobs")] = Field(default_factory=list)


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
    model = check_file(EdgeInstanceModel, data)
    market = EdgeMarket(
        slots=model.slots,
        sites=tuple(
            placed(f"sites[{index}]", _site, site) for index, site in enumerate(model.sites)
        ),
        traffic_mb_per_slot=model.traffic_mb_per_slot,
        chunk_mb=model.chunk_mb,
        price_base=model.price_base,
    )
    jobs, history = (
        tuple(placed(f"{name}[{index}]", _job, job) for index, job in enumerate(models))
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
    return _job(check_schema(JobModel, data, ""))


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
        utility=placed("utility", _utility, model.utility),
    )


def _utility(data: dict[str, Any]) -> Utility:
    match data.get("form"):
        case "logistic":
            logistic = check_schema(LogisticModel, data, "")
            return Logistic(logistic.scale, logistic.decay)
        case "table":
            return ByDuration(tuple(check_schema(TableModel, data, "").values))
        case other:
            raise InputError("form", f"{other!r}", "logistic or table")
