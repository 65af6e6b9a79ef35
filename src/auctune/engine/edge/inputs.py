"""How jobs of the edge train; and the files of `auctune edge run`.

TRAINING.toml (docs/reference/edge-files.md): [default] has keys for all jobs, [jobs.ID] those of
one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field

from auctune.datasets import read_dataset
from auctune.domain import InputError
from auctune.domain.base_name import BaseDtype, resolve_base
from auctune.domain.data_size import check_method, method_of
from auctune.domain.dataset import DataSet
from auctune.edge.eris import ErisEntry
from auctune.edge.job import EdgeJob
from auctune.edge.prices import ErisParams
from auctune.engine.base_place import base_cache
from auctune.engine.edge.ray_sites import worker_gpus
from auctune.engine.elastic.gradient_worker import WorkerSettings
from auctune.files.parameter_text import parse_label
from auctune.files.schema import (
    STRICT,
    CheckpointInterval,
    check_schema,
    hyperparameters_of,
    with_hyperparameters,
)
from auctune.files.toml_file import read_toml
from auctune.registry.policies import EDGE_ENTRIES
from auctune.sim.edge.instance_file import EdgeInstance, read_edge_instance
from auctune.train.adapter_files import read_start
from auctune.train.job import LoraJob


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeTraining:
    """How a job trains, whatever its plan.

    Attributes:
        base: name of the base model, as `resolve_base` returns it.
        cache: folder of bases that are built on a site's machine.
        config: settings of the adapter and its optimizer; its data are the sites' rows, and the
            adapter that it starts from is here: an archive, once the run has its copies.
        rows: JSONL file by site.
        are_uploads: whether the files are here, and their sites receive them; otherwise each is
            read at its site, and no other process sees its rows.
        may_move: whether another site may read the rows of a lost one, at the same path.
        num_rows: rows of all sites that have something to learn; None: all rows are counted.
        validation: JSONL file to measure by, which is here, or None.
        dtype: of the base's weights.
        threads: of a worker on a CPU.
        micro_batch: rows that go through the model together, all of one chunk; it divides the
            batch size (`micro_batch_of`).
        gradient_checkpointing: of workers; the adapter does not depend on it.
    """

    base: str
    cache: str
    config: LoraJob
    rows: Mapping[str, str]
    are_uploads: bool = False
    may_move: bool = False
    num_rows: int | None = None
    validation: str | None = None
    dtype: BaseDtype = "float32"
    threads: int = 1
    micro_batch: int = 4
    gradient_checkpointing: int = 0

    def __post_init__(self) -> None:
        if self.micro_batch < 1:
            raise InputError("micro_batch", f"{self.micro_batch}", "rows >= 1")
        if self.config.batch_size % self.micro_batch:
            expected = f"a multiple of micro_batch = {self.micro_batch}"
            raise InputError("batch_size", f"{self.config.batch_size}", expected)
        if self.threads < 1:
            raise InputError("threads", f"{self.threads}", "threads >= 1")

    def worker_settings(self, device: str) -> WorkerSettings:
        """Return the settings of workers on a device."""
        return WorkerSettings(
            base=self.base,
            cache=self.cache,
            job=self.config,
            device=device,
            dtype=self.dtype,
            threads=self.threads,
            gradient_checkpointing=self.gradient_checkpointing,
        )

    def place_of(self, site: str) -> str:
        """Return where the user names the rows of a site: in a request, or in TRAINING.toml."""
        return f"market.sites.{site}" if self.are_uploads else f"rows.{site}"

    def read_validation(self) -> DataSet | None:
        """Return the rows to measure by, or None.

        Raises:
            InputError: if they cannot be used.
        """
        if self.validation is None:
            return None
        place = "validation_file" if self.are_uploads else "validation"
        if not self.are_uploads and not Path(self.validation).is_file():
            raise InputError(place, f"there is no file {self.validation!r}", "a file of rows")
        data = read_dataset(Path(self.validation), place)
        check_method(place, self.config.method, method_of(data.kind))
        return data


def micro_batch_of(batch_size: int, limit: int) -> int:
    """Return the largest divisor of a batch size up to a limit."""
    return next(rows for rows in range(min(limit, batch_size), 0, -1) if batch_size % rows == 0)


def adapter_settings(
    job: str,
    settings: Mapping[str, Any],
    *,
    start_from: Path | None = None,
    start_digest: str | None = None,
) -> LoraJob:
    """Return the settings of a job's adapter, whose data are the sites' rows.

    Args:
        job: its id.
        settings: hyperparameters.
        start_from: adapter that it starts from, which is here, or None.
        start_digest: of that adapter.
    """
    return LoraJob(
        id=job, data=Path(), start_from=start_from, start_digest=start_digest, **settings
    )


@with_hyperparameters(without=("epochs", "patience"))
class TrainingTable(BaseModel):
    """Keys of TRAINING.toml: where rows are, and the hyperparameters of training."""

    model_config = STRICT

    base: str = "tiny"
    rows: dict[str, str] = {}
    start_from: str = ""
    validation: str = ""
    dtype: BaseDtype = "float32"
    threads: int = 1
    micro_batch: Annotated[int, Field(ge=1)] = 4
    gradient_checkpointing: CheckpointInterval = 0
    rows_move: bool = False


def read_training(path: Path, jobs: Sequence[EdgeJob]) -> dict[str, EdgeTraining]:
    """Return how each job trains.

    Args:
        path: a TRAINING.toml; relative paths in it start from its folder.
        jobs: of the instance.

    Raises:
        InputError: naming the key.
    """
    tables, place = read_toml(path, "a TRAINING.toml"), str(path)
    for name in tables:
        if name not in ("default", "jobs"):
            raise InputError(f"{place}: {name}", "is unknown", "default or jobs")
    default, own = _table(tables, "default", place), _table(tables, "jobs", place)
    for name in own:
        if name not in {job.id for job in jobs}:
            raise InputError(f"{place}: jobs.{name}", "is unknown", "the id of a job")
    found = {}
    for job in jobs:
        values = default | _table(own, job.id, f"{place}: jobs")
        where = f"{place}: job {job.id}"
        table = check_schema(TrainingTable, values, where)
        try:
            found[job.id] = _training(job, table, path.parent)
        except InputError as error:
            raise error.within(where) from None
    return found


def _training(job: EdgeJob, table: TrainingTable, folder: Path) -> EdgeTraining:
    def resolve(name: str) -> str:
        return str((folder / name).resolve())

    for site, count in job.chunks.items():
        if count and site not in table.rows:
            raise InputError(f"rows.{site}", "is missing", "the file of rows at this site")
    path = Path(resolve(table.start_from)) if table.start_from else None
    start = None if path is None else read_start(path, "start_from")[0]
    config = adapter_settings(
        job.id,
        {"epochs": job.epochs, **hyperparameters_of(table, start)},
        start_from=path,
        start_digest=None if start is None else start.digest,
    )
    return EdgeTraining(
        base=resolve_base(table.base, folder),
        cache=str(base_cache()),
        config=config,
        rows={site: resolve(name) for site, name in table.rows.items()},
        may_move=table.rows_move,
        validation=resolve(table.validation) if table.validation else None,
        dtype=table.dtype,
        threads=table.threads,
        micro_batch=micro_batch_of(config.batch_size, table.micro_batch),
        gradient_checkpointing=table.gradient_checkpointing,
    )


def _table(tables: Mapping[str, Any], name: str, place: str) -> dict[str, Any]:
    value = tables.get(name, {})
    if not isinstance(value, dict):
        raise InputError(f"{place}: {name}", f"{value!r}", "a table")
    return value


@dataclass(frozen=True, slots=True)
class EdgeRunInputs:
    """A run's instance, training and settings.

    Attributes:
        instance: market and jobs.
        trainings: how each job trains.
        params: of Eris.
        device: of workers.
        ray: address of a cluster; empty: all sites are on this machine.
    """

    instance: EdgeInstance
    trainings: dict[str, EdgeTraining]
    params: ErisParams = field(default_factory=ErisParams)
    device: str = "cpu"
    ray: str = ""


def read_inputs(
    instance: Path,
    training: Path,
    mechanism: str = "eris",
    device: str = "cpu",
    ray: str = "",
) -> EdgeRunInputs:
    """Return the inputs in files.

    Raises:
        InputError: naming the file and field, or the option.
    """
    params = _eris_params(mechanism)
    market = read_edge_instance(instance)
    for job in market.jobs if ray else ():
        try:
            worker_gpus(device, job.worker)
        except InputError as error:
            raise error.within(f"{instance}: job {job.id}") from None
    trainings = read_training(training, market.jobs)
    for job in market.jobs:
        one = trainings[job.id]
        try:
            one.read_validation()
            if not ray:
                _check_rows(one, job.chunks)
        except InputError as error:
            raise error.within(f"{training}: job {job.id}") from None
    return EdgeRunInputs(market, trainings, params, device, ray)


def _eris_params(mechanism: str) -> ErisParams:
    name, _ = parse_label(mechanism, "--mechanism", "mechanism")
    # The others plan for the simulator alone: an error need not list them.
    if name != "eris":
        expected = "eris, with its settings, as in eris:pricing=paper"
        raise InputError("--mechanism", f"{name!r} does not run at sites", expected)
    entry = EDGE_ENTRIES.parse(mechanism, "--mechanism")
    assert isinstance(entry, ErisEntry)
    return entry.params


def _check_rows(training: EdgeTraining, chunks: Mapping[str, int]) -> None:
    """Check that the files of rows are there, where sites are of this machine."""
    for site, count in chunks.items():
        path = training.rows.get(site)
        if count and path is not None and not Path(path).is_file():
            found = f"there is no file {path!r}"
            raise InputError(training.place_of(site), found, "the file of rows at this site")
