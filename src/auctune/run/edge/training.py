"""How a job of the edge trains, where its rows are, and how they are cut into chunks.

TRAINING.toml says it for `auctune edge run` (docs/reference/edge-files.md): [default] has keys for
all jobs, [jobs.ID] those of one.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, Field

from auctune.domain import InputError
from auctune.domain.base_name import resolve_base
from auctune.domain.dataset import DataSet, read_dataset
from auctune.edge.decision import SlotPlan
from auctune.edge.job import EdgeJob
from auctune.numerics.rng import stream
from auctune.run.base_place import base_cache
from auctune.schema import STRICT, check_schema, hyperparameters_of, with_hyperparameters
from auctune.sim.toml_file import read_toml
from auctune.train.job import LoraJob


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeTraining:
    """How a job trains, whatever its plan.

    Attributes:
        base: name of the base model, as `resolve_base` returns it.
        cache: folder of bases that are built on a site's machine.
        config: settings of the adapter and its optimizer; its data are the sites' rows.
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
    """

    base: str
    cache: str
    config: LoraJob
    rows: Mapping[str, str]
    are_uploads: bool = False
    may_move: bool = False
    num_rows: int | None = None
    validation: str | None = None
    dtype: Literal["float32", "bfloat16"] = "float32"
    threads: int = 1
    micro_batch: int = 4

    def __post_init__(self) -> None:
        if self.micro_batch < 1:
            raise InputError("micro_batch", f"{self.micro_batch}", "rows >= 1")
        if self.config.batch_size % self.micro_batch:
            expected = f"a multiple of micro_batch = {self.micro_batch}"
            raise InputError("batch_size", f"{self.config.batch_size}", expected)
        if self.threads < 1:
            raise InputError("threads", f"{self.threads}", "threads >= 1")


def micro_batch_of(batch_size: int, limit: int) -> int:
    """Return the largest divisor of a batch size up to a limit."""
    return next(rows for rows in range(min(limit, batch_size), 0, -1) if batch_size % rows == 0)


def adapter_settings(job: str, settings: Mapping[str, Any]) -> LoraJob:
    """Return the settings of a job's adapter, whose data are the sites' rows."""
    return LoraJob(id=job, data=Path(), **settings)


@with_hyperparameters(without=("epochs", "patience"))
class TrainingTable(BaseModel):
    """Keys of TRAINING.toml: where rows are, and the hyperparameters of training."""

    model_config = STRICT

    base: str = "tiny"
    rows: dict[str, str] = {}
    validation: str = ""
    dtype: Literal["float32", "bfloat16"] = "float32"
    threads: int = 1
    micro_batch: Annotated[int, Field(ge=1)] = 4
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
    config = adapter_settings(job.id, {"epochs": job.epochs, **hyperparameters_of(table)})
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
    )


def _table(tables: Mapping[str, Any], name: str, place: str) -> dict[str, Any]:
    value = tables.get(name, {})
    if not isinstance(value, dict):
        raise InputError(f"{place}: {name}", f"{value!r}", "a table")
    return value


# Chunks of a job are numbered: those of its first site, then of its second, and so on.


def chunks_at(job: EdgeJob, site: str) -> range:
    """Return the numbers of the chunks that lie at a site."""
    first = 0
    for name, count in job.chunks.items():
        if name == site:
            return range(first, first + count)
        first += count
    return range(0)


def assign_chunks(job: EdgeJob, part: SlotPlan, taken: Mapping[str, int]) -> dict[str, list[int]]:
    """Return the chunks of a slot by the site that trains them.

    Args:
        job: whose.
        part: the plan of the slot.
        taken: number of chunks by origin that earlier slots trained; the next ones follow them.
    """
    position, assigned = Counter(dict(taken)), dict[str, list[int]]()
    for move in part.moves:
        first = position[move.origin]
        here = chunks_at(job, move.origin)[first : first + move.chunks]
        assigned.setdefault(move.destination, []).extend(here)
        position[move.origin] += move.chunks
    return assigned


def cut_chunks(path: Path, site: str, count: int, seed: int) -> list[DataSet]:
    """Return the rows of a site as chunks, in an order that the seed draws.

    Chunks differ by one row at most.

    Raises:
        InputError: if the file cannot be read, or has fewer rows than chunks.
    """
    data = read_dataset(path, f"market.sites.{site}")
    if len(data) < count:
        expected = f"{count} at least, one for each chunk"
        raise InputError(f"market.sites.{site}", f"has {len(data)} rows", expected)
    order = stream(seed, "edge", "site", site).permutation(len(data))
    return [
        DataSet(data.kind, tuple(data.rows[index] for index in part))
        for part in np.array_split(order, count)
    ]
