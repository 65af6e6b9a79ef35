"""A spot job of the service: its strategy and estimates, and the argument of its process."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypedDict

from pydantic import Field, TypeAdapter

from auctune.domain import InputError
from auctune.domain.checks import check_positive
from auctune.engine.elastic.gradient_worker import WorkerSettings
from auctune.files.parameter_text import parse_label
from auctune.registry.policies import SPOT_POLICIES
from auctune.sim.spot.advice import Advice, advise
from auctune.sim.spot.forecasts import ForecasterSpec, parse_forecaster
from auctune.spot.job import InstanceStart, LinearScaling, Overhead, SpotJob, TableScaling
from auctune.spot.market import SpotMarket
from auctune.spot.policy import Policy
from auctune.train.job import LoraJob

WORKER = "auctune.engine.spot.job_process"
"""Worker module of a job's process; its argument is a `SpotJobConfig`."""


# Share of a node's custom resource: what is divided among instances are CPUs and GPUs.
_RESOURCE_SHARE = 0.001


@dataclass(frozen=True, slots=True)
class SpotJobSpec:
    """A `SpotJob` in plain values.

    Attributes:
        workload, deadline, hard_factor, value, n_min, n_max, mu1, mu2: of the job.
        table: H(n) for 1..n_max; None: a n + c.
        start: slots that an instance takes to start; None: the account by total, of mu1 and mu2.
        a, c: of H(n) without a table.
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
    start: Annotated[float | None, Field(exclude_if=lambda start: start is None)] = None
    a: Annotated[float, Field(exclude_if=lambda a: a == 1.0)] = 1.0
    c: Annotated[float, Field(exclude_if=lambda c: c == 0.0)] = 0.0

    @classmethod
    def of(cls, job: SpotJob) -> "SpotJobSpec":
        """Return the plain values of a job."""
        table, linear = None, LinearScaling()
        if isinstance(job.scaling, TableScaling):
            table = job.scaling.table
        else:
            assert isinstance(job.scaling, LinearScaling)
            linear = job.scaling
        return cls(
            workload=job.workload,
            deadline=job.deadline,
            hard_factor=job.hard_factor,
            value=job.value,
            n_min=job.n_min,
            n_max=job.n_max,
            table=table,
            a=linear.a,
            c=linear.c,
            **overhead_fields(job.overhead),
        )

    def job(self) -> SpotJob:
        """Return the job.

        Raises:
            InputError: naming the invalid value.
        """
        return SpotJob(
            workload=self.workload,
            deadline=self.deadline,
            hard_factor=self.hard_factor,
            value=self.value,
            n_min=self.n_min,
            n_max=self.n_max,
            scaling=LinearScaling(self.a, self.c)
            if self.table is None
            else TableScaling(self.table),
            overhead=Overhead(self.mu1, self.mu2)
            if self.start is None
            else InstanceStart(self.start),
        )


class OverheadFields(TypedDict):
    """The fields of a `SpotJobSpec` that say what a change of GPUs costs."""

    mu1: float
    mu2: float
    start: float | None


def overhead_fields(overhead: Overhead | InstanceStart) -> OverheadFields:
    """Return the fields of an account; by instance mu1 and mu2 are not read."""
    if isinstance(overhead, InstanceStart):
        return {"mu1": 1.0, "mu2": 1.0, "start": overhead.slots}
    return {"mu1": overhead.mu1, "mu2": overhead.mu2, "start": None}


@dataclass(frozen=True, slots=True)
class SpotRayParams:
    """How instances are placed on a Ray cluster.

    Attributes:
        address: HOST:PORT of its head; None: one on this machine, started and ended with the run.
        spot, on_demand: custom resources of the Ray nodes for instances of either kind.
        use_cluster_capacity: offer as many spot instances as fit on the cluster, instead of as
            many as the market says.
        missing_seconds: time without a place on the cluster after which a spot instance is
            preempted.
        reach_seconds: how long to wait for a cluster that is not reachable.
    """

    address: str | None = None
    spot: str = "auctune:spot"
    on_demand: str = "auctune:on-demand"
    use_cluster_capacity: bool = False
    missing_seconds: float = 15.0
    reach_seconds: float = 30.0

    def __post_init__(self) -> None:
        for name in ("missing_seconds", "reach_seconds"):
            check_positive(getattr(self, name), name, "a number of seconds > 0")

    def requirements(self, resource: str, device: str, threads: int) -> dict[str, float]:
        """Return the Ray resources of an instance.

        Args:
            resource: custom resource of the Ray nodes for its kind.
            device: on which it computes. On a cluster that the run starts, Ray assigns no GPUs.
            threads: of torch on a CPU.
        """
        if device == "cpu":
            return {"CPU": float(threads), resource: _RESOURCE_SHARE}
        if self.address is None:
            return {resource: _RESOURCE_SHARE}
        return {"GPU": 1.0, resource: _RESOURCE_SHARE}


@dataclass(frozen=True, slots=True)
class SpotJobConfig:
    """A job as the service hands it to its process.

    Attributes:
        job: bounds, deadline and value.
        policy, forecast: see `SpotStrategy`.
        workers, micro_batch: as of `SpotRunConfig`.
        folder: of the run.
        trace: of the market, from the job's first slot on.
        history: price and count by slot before the job's first slot.
        begins: unix time of the job's first slot.
        slot_seconds: length of a slot.
        market_slot_seconds: length of a slot in the market's own time.
        cap: maximum cost, in units of the on-demand price.
        saved_every: seconds between checkpoints within a slot.
        ray: cluster on which instances run; None: they are processes of this machine.
    """

    job: SpotJobSpec
    policy: str
    forecast: str
    workers: WorkerSettings
    micro_batch: int
    folder: Path
    trace: dict[str, list[Any]]
    history: dict[str, list[Any]]
    begins: float
    slot_seconds: float
    market_slot_seconds: float
    cap: float
    saved_every: float
    ray: SpotRayParams | None = None


SPOT_JOB_CONFIG = TypeAdapter(SpotJobConfig)
"""Reads and writes the argument of a job's process."""


def lora_job(hyperparameters: Mapping[str, Any], data: Path, **files: Any) -> LoraJob:
    """Return the adapter that a rented job trains; `files` as of `LoraJob`."""
    return LoraJob("job", data, **hyperparameters, **files)


# Each is a job simulated to its end; the 90th percentile needs some.
_NUM_FUTURES = 30


# A future is a stretch of the past: this many more slots of it are needed to choose among.
_SPARE_SLOTS = 8


@dataclass(frozen=True, slots=True)
class SpotStrategy:
    """How a job rents: its policy and its forecaster.

    Attributes:
        policy, forecast: as `NAME[:KEY=VALUE...]`.
    """

    policy: str
    forecast: str

    def __post_init__(self) -> None:
        self.read_policy()
        if self.read_forecaster().knows_future:
            raise InputError("forecast", "knows the future", "chain, seasonal or arima")

    def read_policy(self) -> Policy:
        """Return the policy.

        Raises:
            InputError: naming `policy` or the setting.
        """
        return read_policy(self.policy)

    def read_forecaster(self) -> ForecasterSpec:
        """Return the source of forecasts.

        Raises:
            InputError: naming `forecast` or the setting.
        """
        return parse_forecaster(self.forecast, "forecast")


def read_policy(label: str) -> Policy:
    """Return the policy of a label `NAME[:KEY=VALUE...]`.

    Raises:
        InputError: naming `policy` or the setting.
    """
    name, settings = parse_label(label, "policy", "policy")
    return SPOT_POLICIES.build(name, settings)


def max_deadline(history: SpotMarket) -> int:
    """Return the latest deadline, in slots, for which the history allows an estimate."""
    return max(0, history.num_slots - _SPARE_SLOTS)


def estimate(
    job: SpotJob,
    strategy: SpotStrategy,
    history: SpotMarket,
    delay: int = 0,
    speeds: Sequence[float] = (1.0,),
) -> Advice:
    """Estimate cost and finish of a job as `auctune spot advise` does.

    Args:
        job: its deadline, with the delay, at most `max_deadline`.
        strategy: how it rents.
        history: the market, its last slot the present one.
        delay: slots until the job begins.
        speeds: see `advise`.
    """
    return advise(
        job,
        strategy.read_policy(),
        strategy.read_forecaster(),
        history,
        history.num_slots - 1,
        most_futures=_NUM_FUTURES,
        delay=delay,
        speeds=speeds,
    )
