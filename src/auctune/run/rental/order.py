"""What a job's own process is told, in a file beside its folder.

FOLDER/
  order.json    this
  run/          the run's own folder (auctune.run.spot.folder)
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from auctune.atomic_files import write_atomically
from auctune.spot.job import LinearScaling, Overhead, SpotJob, TableScaling

WORKER = "auctune.run.spot.rented_job"
"""Worker module of a rented job; its argument is the folder."""


@dataclass(frozen=True, slots=True)
class JobTerms:
    """A `SpotJob` in plain values.

    Attributes:
        workload, deadline, hard_factor, value, n_min, n_max, mu1, mu2: of the job.
        table: H(n) for 1..n_max; none: n.
    """

    workload: float
    deadline: int
    hard_factor: float
    value: float
    n_min: int
    n_max: int
    mu1: float
    mu2: float
    table: tuple[float, ...] | None = None

    def job(self) -> SpotJob:
        """The job.

        Raises:
            InputError: naming what is wrong.
        """
        return SpotJob(
            workload=self.workload,
            deadline=self.deadline,
            hard_factor=self.hard_factor,
            value=self.value,
            n_min=self.n_min,
            n_max=self.n_max,
            scaling=LinearScaling() if self.table is None else TableScaling(self.table),
            overhead=Overhead(self.mu1, self.mu2),
        )

    def to_record(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> "JobTerms":
        """What `to_record` gave, also by way of JSON."""
        table = record["table"]
        return cls(**{**record, "table": None if table is None else tuple(table)})


@dataclass(frozen=True, slots=True)
class RentedOrder:
    """One job.

    Attributes:
        job: what the policy is asked about.
        policy, forecast: as texts.
        training: settings of a `LoraJob`, without files.
        data, validation: files.
        base, device, dtype, threads, cache: what workers load, and where they compute.
        micro_batch: rows that go through the model together.
        trace: of the market, from the job's first slot on.
        seen: price and count by slot up to the job's first slot, without it.
        begins: unix time of the job's first slot.
        slot_seconds: length of a slot here.
        market_slot_seconds: and in the market's own time.
        cap: the most that may be paid, in units of the on-demand price.
        warm: workers are forked from a process that has loaded everything.
        saved_every: seconds between checkpoints within a slot.
        ray: of the cluster on which instances are, as `SpotRayParams.to_record` has it; none: they
            are processes here.
    """

    job: JobTerms
    policy: str
    forecast: str
    training: dict[str, Any]
    data: str
    validation: str | None
    base: str
    device: str
    dtype: str
    threads: int
    cache: str
    micro_batch: int
    trace: dict[str, list[Any]]
    seen: dict[str, list[Any]]
    begins: float
    slot_seconds: float
    market_slot_seconds: float
    cap: float
    warm: bool
    saved_every: float
    ray: dict[str, Any] | None = None


def run_folder(folder: Path) -> Path:
    """Where the run of a job lies."""
    return folder / "run"


def adapter_in(folder: Path) -> Path:
    """Where its adapter lies, once it is done."""
    return run_folder(folder) / "adapter"


def write_order(order: RentedOrder, folder: Path) -> None:
    """Put an order where the job's process reads it.

    Raises:
        OSError: if it cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "order.json", json.dumps(asdict(order)).encode())


def read_order(folder: Path) -> RentedOrder:
    """What `write_order` wrote."""
    record = json.loads((folder / "order.json").read_bytes())
    return RentedOrder(**{**record, "job": JobTerms.from_record(record["job"])})
