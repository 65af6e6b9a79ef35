"""JOB.toml: a job that rents by deadline; docs/reference/spot-files.md lists all keys.

Kinds of values are checked here, what they mean where the values are made: errors of the mechanism
come back with the key's path.
"""

from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field, model_validator

from auctune.domain import InputError
from auctune.files.schema import (
    STRICT,
    CheckpointInterval,
    check_schema,
    hyperparameters_of,
    with_hyperparameters,
)
from auctune.files.toml_file import read_toml
from auctune.spot.job import (
    DEFAULT_VALUE,
    Changeover,
    InstanceStart,
    LinearScaling,
    Overhead,
    Scaling,
    SpotJob,
    TableScaling,
    read_overhead,
)

_EXPECTED = "a job file in TOML"

# Far above any real job, and small enough that sums of products stay numbers.
_MOST = 10**9

# Of an instance, until it works.
START_SECONDS = 180.0

Positive = Annotated[float, Field(gt=0, le=_MOST)]
Rate = Annotated[float, Field(ge=0, le=_MOST)]
Count = Annotated[int, Field(ge=1, le=_MOST)]


class JobEntry(BaseModel):
    """[job]."""

    model_config = STRICT

    workload: Positive
    deadline_slots: Annotated[int, Field(ge=1, le=100_000)]
    hard_factor: Annotated[float, Field(ge=1, le=_MOST)] = 1.5
    value: Rate | None = None
    n_min: Count = 1
    n_max: Annotated[int, Field(ge=1, le=100_000)] = 16


class ScalingEntry(BaseModel):
    """[scaling]: a and c, or a table."""

    model_config = STRICT

    a: Rate | None = None
    c: Annotated[float, Field(ge=-_MOST, le=_MOST)] | None = None
    table: list[Positive] | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> "ScalingEntry":
        if self.table is not None and (self.a is not None or self.c is not None):
            raise InputError("", "has a table beside a or c", "one of the two")
        return self

    def scaling(self) -> Scaling:
        """As the mechanism takes it."""
        if self.table is not None:
            return TableScaling(tuple(self.table))
        a = 1.0 if self.a is None else self.a
        return LinearScaling(a, 0.0 if self.c is None else self.c)


class OverheadEntry(BaseModel):
    """[overhead]: what a change of GPUs costs, by instance or by total."""

    model_config = STRICT

    changeover: Changeover | None = None
    start_seconds: Rate | None = None
    mu1: Annotated[float, Field(gt=0, le=1)] | None = None
    mu2: Annotated[float, Field(gt=0, le=1)] | None = None

    @model_validator(mode="after")
    def _one_account(self) -> "OverheadEntry":
        self.overhead(1.0, 1)
        return self

    def overhead(self, slot_seconds: float, n_max: int) -> Overhead | InstanceStart:
        """As the mechanism takes it."""
        seconds = self.start_seconds
        return read_overhead(
            self.changeover,
            n_max,
            None if seconds is None else seconds / slot_seconds,
            self.mu1,
            self.mu2,
            start_key="start_seconds",
            default_start=min(START_SECONDS / slot_seconds, 1.0),
        )


class MarketEntry(BaseModel):
    """[market]: how the prices of a market file are read."""

    model_config = STRICT

    on_demand_price: Positive = 1.0
    slot_seconds: Positive = 1800.0


@with_hyperparameters(without=("patience",))
class TrainingEntry(BaseModel):
    """[training]: for a real run."""

    model_config = STRICT

    base: str
    data: str
    start_from: str | None = None
    micro_batch: Count = 1
    gradient_checkpointing: CheckpointInterval = 0

    @model_validator(mode="after")
    def _micro_batches_fit(self) -> "TrainingEntry":
        batch_size = hyperparameters_of(self)["batch_size"]
        if self.micro_batch > batch_size:
            expected = f"at most batch_size = {batch_size}"
            raise InputError("micro_batch", f"{self.micro_batch}", expected)
        return self


class JobFile(BaseModel):
    """The whole file, checked: `spot_job()` cannot fail."""

    model_config = STRICT

    job: JobEntry
    scaling: ScalingEntry = ScalingEntry()
    overhead: OverheadEntry = OverheadEntry()
    market: MarketEntry = MarketEntry()
    training: TrainingEntry | None = None

    def spot_job(self) -> SpotJob:
        """Return the job, as policies and simulator take it."""
        entry = self.job
        value = DEFAULT_VALUE * entry.workload if entry.value is None else entry.value
        return SpotJob(
            workload=entry.workload,
            deadline=entry.deadline_slots,
            hard_factor=entry.hard_factor,
            value=value,
            n_min=entry.n_min,
            n_max=entry.n_max,
            scaling=self.scaling.scaling(),
            overhead=self.overhead.overhead(self.market.slot_seconds, entry.n_max),
        )


def read_job_file(path: Path) -> JobFile:
    """Return the job in a file.

    Raises:
        InputError: `FILE: job.n_max: found; expected ...`, for the first thing that is wrong.
    """
    return parse_job_file(read_toml(path, _EXPECTED), str(path))


def parse_job_file(tables: dict[str, Any], place: str) -> JobFile:
    """Return the job in the tables of a file that errors call `place`.

    Raises:
        InputError: naming the key's path.
    """
    file = check_schema(JobFile, tables, place)
    try:
        file.spot_job()
    except InputError as error:
        key = _key(error.place)
        raise InputError(f"{place}: {key}", error.found, error.expected) from None
    return file


# Of fields that are tables here, the key whose value must fit others'.
_KEYS = {"scaling": "scaling.table", "overhead": "overhead.start_seconds"}


def _key(field: str) -> str:
    """The key's path of a field of the mechanism's, of those whose values must fit others'."""
    if field in _KEYS:
        return _KEYS[field]
    return f"scaling.{field}" if field == "c" or field.startswith("table") else f"job.{field}"
