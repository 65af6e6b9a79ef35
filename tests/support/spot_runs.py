"""Small elastic jobs on made-up markets, with workers that are threads of the test's process."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import Tensor

from auctune.engine.elastic.gradient_worker import WorkerSettings
from auctune.engine.messages.elastic import GRADIENT_MESSAGES
from auctune.engine.runtime.channel import OnMessage, ParentChannel
from auctune.engine.runtime.worker import WorkerHandle
from auctune.engine.spot.clock import ModelClock, SlotClock
from auctune.engine.spot.coordinator import ForecastSource, no_forecast
from auctune.engine.spot.job import SpotRunConfig
from auctune.engine.spot.provider import InstanceProvider, ProviderFactory, TraceCapacity
from auctune.engine.spot.state import EventRecord
from auctune.engine.spot.traces import MarketTrace
from auctune.numerics.rng import stream
from auctune.service.zones.spot.state import StrategyLabels
from auctune.spot import Policy, SpotJob, SpotMarket
from auctune.standalone.spot import SpotRunFolder, begun_run, read_run_events, run_job
from auctune.standalone.spot_inputs import PreparedJob
from auctune.standalone.spot_report import SpotRunReport
from auctune.train.base import Base
from auctune.train.data_parallel.gradient_worker import GradientWorker
from auctune.train.job import LoraJob
from support.elastic import (
    ThreadWorker,
    Work,
    gradient_work,
    new_trainer,
    train_with,
    weights_of,
)
from support.small_bases import build_base, write_rows

MakeWork = Callable[[WorkerSettings], Work]
"""Called in the test's own thread, as transformers and PEFT do not load in several at once."""


def honest(base: Base) -> MakeWork:
    """Workers that compute what they are sent."""

    def make(settings: WorkerSettings) -> Work:
        worker = GradientWorker(base, settings.job)
        return gradient_work(worker, settings.job, Path(settings.cache))

    return make


def mute(parent: ParentChannel[Any, Any]) -> None:
    """A worker that receives everything and never answers."""
    parent.stop_requested.wait()


@dataclass
class ThreadLauncher:
    """Starts workers in threads."""

    settings: WorkerSettings
    make: MakeWork

    def start(self, name: str, on_message: OnMessage) -> WorkerHandle:
        return ThreadWorker(self.make(self.settings), GRADIENT_MESSAGES, on_message)

    def close(self) -> None:
        pass


@dataclass
class ThreadProvider:
    """A replayed market whose instances are threads."""

    trace: MarketTrace
    make: MakeWork

    def check(self, job: SpotJob) -> None:
        """Any job will do."""

    def identity(self) -> dict[str, Any]:
        return {"trace": self.trace.digest}

    def is_warm(self, settings: WorkerSettings) -> bool:
        return False

    def open(self, settings: WorkerSettings, log: Path) -> InstanceProvider:
        launcher = ThreadLauncher(settings, self.make)
        return InstanceProvider(self.trace, launcher, TraceCapacity(self.trace))


@dataclass(frozen=True)
class Site:
    """A base, data, and where runs may lie.

    Attributes:
        folder: of the base.
        order: with a job of 12 units of work, 8 rows a unit.
    """

    folder: Path
    order: SpotRunConfig
    base: Base

    def supply(self, market: SpotMarket | MarketTrace) -> ThreadProvider:
        """Instances that are threads."""
        trace = market if isinstance(market, MarketTrace) else MarketTrace.of_slots(market)
        return ThreadProvider(trace, honest(self.base))

    @property
    def settings(self) -> WorkerSettings:
        """Of workers of its job."""
        return self.order.workers

    def with_job(self, **changes: Any) -> SpotRunConfig:
        return replace(self.order, job=replace(self.order.job, **changes))

    def with_training(self, **changes: Any) -> SpotRunConfig:
        workers = self.order.workers
        return replace(self.order, workers=replace(workers, job=replace(workers.job, **changes)))

    def run(
        self,
        folder: Path,
        policy: Policy,
        supply: ProviderFactory,
        *,
        order: SpotRunConfig | None = None,
        forecast: ForecastSource = no_forecast,
        clock: SlotClock | None = None,
        resume: bool = False,
        **options: Any,
    ) -> SpotRunReport:
        order, place = order or self.order, SpotRunFolder(folder)
        job = PreparedJob(
            config=order,
            policy=policy,
            factory=supply,
            forecast=forecast,
            labels=StrategyLabels(policy.name, "none"),
            slot_seconds=1.0,
            make_clock=lambda rows: clock or ModelClock(order.job, rows),
        )
        return run_prepared(job, place, resume=resume, **options)

    def undisturbed(self, folder: Path, order: SpotRunConfig | None = None) -> dict[str, Tensor]:
        """The adapter's weights after training in this process, with nothing in the way."""
        order = order or self.order
        base, training = self.base, order.workers.job
        trainer = new_trainer(base, training, folder, order.micro_batch)
        train_with(trainer, [GradientWorker(base, training)], stream(0))
        return weights_of(trainer)


def run_prepared(
    job: PreparedJob, folder: SpotRunFolder, *, resume: bool, **options: Any
) -> SpotRunReport:
    """Run a job without a file, new or resumed."""
    if resume:
        with folder.locked():
            return run_job(job, folder, **options)
    with begun_run(folder, {}, lambda _: job, {}):
        return run_job(job, folder, **options)


def make_site(folder: Path) -> Site:
    base = build_base(folder / "base", "gpt2")
    training = LoraJob(
        id="job",
        data=write_rows(folder / "data.jsonl", 48, seed=1),
        epochs=2,
        rank=4,
        dropout=0.1,
        learning_rate=3e-3,
        batch_size=8,
        max_length=24,
        seed=5,
    )
    job = SpotJob(workload=12.0, deadline=6, n_max=4)
    workers = WorkerSettings(base=str(folder / "base"), cache=str(folder), job=training)
    order = SpotRunConfig(job=job, workers=workers, micro_batch=2)
    return Site(folder, order, base)


def adapter_of(report: SpotRunReport) -> dict[str, Tensor]:
    """The weights that were handed out, by their names in the base."""
    assert report.adapter is not None
    return read_adapter(report.adapter)


def read_adapter(folder: Path) -> dict[str, Tensor]:
    """Weights in PEFT's format, by their names in the base."""
    found = load_file(folder / "adapter_model.safetensors")
    return {name.removeprefix("base_model.model."): tensor for name, tensor in found.items()}


def read_events(folder: Path) -> list[EventRecord]:
    """What is on record of a run."""
    return read_run_events(SpotRunFolder(folder))
