"""Edge instance files: JSON in, an `EdgeInstance` out, and back; docs/reference/edge-files.md."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from auctune.atomic_files import AtomicFiles
from auctune.domain import InputError
from auctune.edge.job import ByDuration, EdgeJob, Logistic, Utility
from auctune.edge.market import EdgeMarket, Site
from auctune.sim.edge.instance import EdgeInstance
from auctune.sim.edge.instance_model import (
    EdgeInstanceModel,
    JobModel,
    LogisticModel,
    SiteModel,
    TableModel,
    explain,
)
from auctune.sim.instance_file import read_json

T = TypeVar("T")


def read_edge_instance(path: Path) -> EdgeInstance:
    """The instance in a file.

    Raises:
        InputError: `FILE: jobs[3].arrival: found; expected ...`, for the first thing that is wrong.
    """
    try:
        return parse_edge_instance(read_json(path))
    except InputError as error:
        raise error.within(str(path)) from None


def write_edge_instance(instance: EdgeInstance, path: Path) -> None:
    """Write a file from which `read_edge_instance` makes an equal instance.

    Raises:
        InputError: if the file cannot be written.
    """
    with AtomicFiles([path]) as (file,):
        json.dump(edge_instance_json(instance), file, ensure_ascii=False, allow_nan=False)
        file.write("\n")


def parse_edge_instance(data: Any) -> EdgeInstance:
    """The instance in a JSON value.

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
    jobs = (_placed(f"jobs[{index}]", _job, job) for index, job in enumerate(model.jobs))
    return EdgeInstance(market, tuple(jobs))


def edge_instance_json(instance: EdgeInstance) -> dict[str, Any]:
    """The JSON value of an instance."""
    market = instance.market
    return {
        "slots": market.slots,
        "sites": [{"id": site.id, "capacity": dict(site.capacity)} for site in market.sites],
        "traffic_mb_per_slot": market.traffic_mb_per_slot,
        "chunk_mb": market.chunk_mb,
        "price_base": dict(market.price_base),
        "jobs": [edge_job_json(job) for job in instance.jobs],
    }


def parse_edge_job(data: Any) -> EdgeJob:
    """The job that `edge_job_json` gave.

    Raises:
        InputError: naming the field.
    """
    return _job(_validated(JobModel, data))


def edge_job_json(job: EdgeJob) -> dict[str, Any]:
    """The JSON value of a job."""
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
