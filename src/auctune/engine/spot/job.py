"""One job from its files, or its configuration, to its adapter and its bill; new or resumed."""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from auctune.atomic_files import clean_temp_files
from auctune.domain import InputError
from auctune.domain.checks import check_count
from auctune.domain.dataset import read_dataset
from auctune.engine.event_log import EventLog
from auctune.engine.spot.clock import ModelClock, SlotClock, WallClock
from auctune.engine.spot.coordinator import Coordinator, ForecastSource, no_forecast
from auctune.engine.spot.inputs import (
    RunInputs,
    SpotFolder,
    copies_of,
    copy_inputs,
    read_inputs,
)
from auctune.engine.spot.job_config import SpotRayParams, read_policy
from auctune.engine.spot.provider import LocalProvider, ProviderFactory
from auctune.engine.spot.ray_workers import RayProvider
from auctune.engine.spot.report import SpotRunReport, make_report, write_bill
from auctune.engine.spot.state import (
    VERSION,
    DataNoted,
    OnEvent,
    SpotRunState,
    Warned,
    ignore_event,
)
from auctune.engine.spot.traces import MarketTrace, make_trace
from auctune.engine.spot.worker import WorkerSettings
from auctune.engine.spot.worker_pool import WorkerPool
from auctune.schema import hyperparameters_of
from auctune.sim.spot.forecasts import parse_forecaster
from auctune.sim.spot.job_file import JobFile
from auctune.sim.spot.trace import read_market
from auctune.spot.forecasts.forecast import Forecast, Forecaster
from auctune.spot.job import SpotJob
from auctune.spot.market import SpotMarket
from auctune.spot.policy import Policy, SpotObservation
from auctune.train.adapter_files import publish_epochs, read_start
from auctune.train.base import load_base
from auctune.train.data_parallel.trainer import ElasticTrainer
from auctune.train.job import LoraJob

# Gradients are summed and adapters written on the CPU: the coordinator may be on a head without a
# GPU, and would occupy one with a base that it hardly uses. Workers check their own device.
_COORDINATOR_DEVICE = "cpu"

MakeClock = Callable[[int], SlotClock]
"""Rows of the whole workload -> the clock of the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotRunConfig:
    """What to run: the job as the market sees it, and as the trainer does.

    Attributes:
        job: workload, deadline, value and bounds; all rows of all epochs are its workload.
        training: the adapter; a batch is that of all instances.
        base: the base model's name.
        micro_batch: rows that go through the model together on one instance.
        device, dtype: where and how workers compute; the coordinator computes on the CPU.
        threads: of torch on a CPU, in each process.
        gradient_checkpointing: of workers; the adapter does not depend on it.
    """

    job: SpotJob
    training: LoraJob
    base: str
    micro_batch: int
    device: str = "cpu"
    dtype: str = "float32"
    threads: int = 1
    gradient_checkpointing: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.micro_batch <= self.training.batch_size:
            expected = f"1 to batch_size = {self.training.batch_size} rows"
            raise InputError("micro_batch", f"{self.micro_batch!r}", expected)
        check_count(self.threads, "threads", 1)

    def identity(self) -> dict[str, Any]:
        """Return what must be the same when a run is resumed, as JSON can hold it."""
        training = asdict(self.training)
        # Files may move; their contents are compared by digests.
        for name in ("data", "validation"):
            del training[name]
        # Logs of earlier releases have the key.
        training["start_from"] = None
        return {
            "job": repr(self.job),
            "training": training | {"target_modules": list(self.training.target_modules)},
            "base": self.base,
            "micro_batch": self.micro_batch,
            "dtype": self.dtype,
            "threads": self.threads,
        }

    def worker_settings(self, cache: Path) -> WorkerSettings:
        """Return the settings of the workers."""
        return WorkerSettings(
            base=self.base,
            cache=str(cache.resolve()),
            job=self.training,
            device=self.device,
            dtype=self.dtype,
            threads=self.threads,
            gradient_checkpointing=self.gradient_checkpointing,
        )


def run_spot_job(
    config: SpotRunConfig,
    policy: Policy,
    factory: ProviderFactory,
    folder: Path,
    *,
    cache: Path,
    make_clock: MakeClock,
    forecast: ForecastSource = no_forecast,
    on_event: OnEvent = ignore_event,
    resume: bool = False,
    saved_every: float = 30.0,
    prepare: Callable[[], object] = lambda: None,
    cap: float = inf,
    should_stop: Callable[[], bool] = lambda: False,
) -> SpotRunReport:
    """Run a job on preemptible instances.

    Args:
        config: the job.
        policy: chooses allocations.
        factory: opens the provider of instances.
        folder: of the run (`SpotFolder`); new or empty, unless it is resumed.
        cache: folder of bases that are built here.
        make_clock: see `auctune.engine.spot.clock`.
        forecast: makes the policy's forecasts.
        on_event: called with every event.
        resume: continue the run in `folder`.
        saved_every: seconds between checkpoints within a slot; there is one at each slot's end.
        prepare: called when the folder is locked, before the job's data are read.
        cap: maximum cost, in the market's unit.
        should_stop: returns whether the run is to stop; it can be resumed.

    Raises:
        InputError: if the folder holds a run already, or none to resume, or another one; if the
            job or the provider cannot be used.
        InfeasibleAllocationError: if the policy's allocation is not allowed.
        SpotRunError: if workers crash again and again.
        CapReachedError: if the next slot would cost more than `cap`.
        StoppedError: if it was stopped.
    """
    place = SpotFolder(folder)
    factory.check(config.job)
    with place.open(resume=resume):
        prepare()
        with closing(EventLog(place.event_log)) as log:
            trainer, base_digest = _begin(log, place, config, policy, factory, cache)
            for warning in trainer.loaded.warnings:
                on_event(Warned(warning))
            for note in trainer.loaded.notes:
                on_event(DataNoted(note))
            if SpotRunState.fold(log.events).ended is None:
                settings = config.worker_settings(cache)
                with closing(factory.open(settings, place.log)) as provider:
                    coordinator = Coordinator(
                        job=config.job,
                        policy=policy,
                        forecast=forecast,
                        trainer=trainer,
                        pool=WorkerPool(trainer, base_digest),
                        provider=provider,
                        clock=make_clock(trainer.total_rows),
                        log=log,
                        on_event=on_event,
                        saved_every=saved_every,
                        cap=cap,
                        should_stop=should_stop,
                    )
                    coordinator.run()
                    # The adapter is written before the end is recorded.
                    if trainer.progress().state == "done":
                        trainer.export(place.adapter)
                        publish_epochs(place.state, place.root)
                    coordinator.end()
            state = SpotRunState.fold(log.events)
            report = make_report(state, config.job, trainer.total_rows, place.adapter)
            clean_temp_files(place.bill)
            write_bill(place.bill, state, config.job, report)
            return report


def _begin(
    log: EventLog,
    place: SpotFolder,
    config: SpotRunConfig,
    policy: Policy,
    factory: ProviderFactory,
    cache: Path,
) -> tuple[ElasticTrainer, str]:
    """Load the training state, and record the identity of a new run.

    Returns:
        The trainer, and its base's digest.

    Raises:
        InputError: if another run is in the folder.
    """
    identity = {
        "version": VERSION,
        "policy": policy.name,
        **config.identity(),
        **factory.identity(),
    }
    place.check_version(log.events)
    log.check_identity(identity)
    base = load_base(config.base, cache=cache, device=_COORDINATOR_DEVICE, dtype=config.dtype)
    trainer = ElasticTrainer(
        base,
        config.training,
        place.state,
        micro_batch=config.micro_batch,
        threads=config.threads,
    )
    digests = {"base_digest": base.digest, "data_digest": trainer.data_digest}
    log.check_identity(digests)
    if not log.events:
        if trainer.rows:
            # What was paid for these rows is not known.
            found = f"has no whole event beside checkpoints of {trainer.rows} rows"
            raise InputError(
                str(place.event_log), found, "the event log of the run, or a new folder"
            )
        inputs = {"inputs": place.input_digests()}
        log.append({"type": "begun", "time": 0.0, **identity, **digests, **inputs})
    return trainer, base.digest


def start_run(inputs: RunInputs, folder: Path, *, cache: Path, on_event: OnEvent) -> SpotRunReport:
    """Run the job of some files, which are copied into the run's folder.

    Args:
        inputs: the files.
        folder: of the run; new or empty.
        cache: folder of bases that are built here.
        on_event: called with every event.

    Raises:
        InputError: if a file is wrong, or as of `run_spot_job`; the folder is then unchanged.
        InfeasibleAllocationError: as of `run_spot_job`.
        SpotRunError: as of `run_spot_job`.
    """
    place = SpotFolder(folder)
    run = prepare_run(inputs, copies_of(inputs, place))
    # Errors name the user's file, not its copy.
    read_dataset(inputs.data)
    return run(folder, cache=cache, on_event=on_event, prepare=lambda: copy_inputs(inputs, place))


def resume_run(folder: Path, *, cache: Path, on_event: OnEvent) -> SpotRunReport:
    """Resume the run in a folder, or begin it if it was stopped before its first event.

    Args:
        folder: of the run.
        cache: folder of bases that are built here.
        on_event: called with every event.

    Raises:
        InputError: if there is no run, or a copy was changed, or as of `run_spot_job`.
        InfeasibleAllocationError: as of `run_spot_job`.
        SpotRunError: as of `run_spot_job`.
    """
    place = SpotFolder(folder)
    inputs = read_inputs(place)
    run = prepare_run(inputs, inputs)
    return run(folder, cache=cache, on_event=on_event, resume=place.has_started)


def prepare_run(inputs: RunInputs, copies: RunInputs) -> Callable[..., SpotRunReport]:
    """Return `run_spot_job` with what the files and settings of a run say.

    Args:
        inputs: read now.
        copies: read by the run, once they are there.

    Raises:
        InputError: naming the file or the setting.
    """
    file, settings = inputs.read_job(), inputs.settings
    recipe = inputs.recipe(file)
    market = read_market(recipe)
    config = make_config(file, inputs, copies)
    job, policy = config.job, read_policy(settings.policy)
    forecaster = parse_forecaster(settings.forecast, "forecast")

    def make_clock(rows: int) -> SlotClock:
        if settings.slot_seconds is None:
            return ModelClock(job, rows)
        return WallClock(settings.slot_seconds)

    return partial(
        run_spot_job,
        config,
        policy,
        make_provider(
            make_trace(recipe, market, job, settings.start),
            job.n_max,
            ray=settings.ray,
            warm=settings.warm,
        ),
        make_clock=make_clock,
        forecast=forecast_source(
            policy,
            job.deadline,
            lambda: forecaster.forecaster(market, settings.seed),
            market.between(0, settings.start) if settings.start else None,
        ),
    )


def make_config(file: JobFile, inputs: RunInputs, copies: RunInputs) -> SpotRunConfig:
    """Return what is to be run; arguments as of `prepare_run`.

    Raises:
        InputError: if the job has no training section, or the adapter that it starts from cannot
            be used.
    """
    training, settings = file.training, inputs.settings
    if training is None:
        raise InputError(f"{inputs.job}: training", "is missing", "[training], for a real run")
    start = None
    if inputs.start_from is not None:
        start, _ = read_start(inputs.start_from, f"{inputs.job}: training.start_from")
    try:
        hyperparameters = hyperparameters_of(training, start)
    except InputError as error:
        raise error.at(f"{inputs.job}: training.{error.place}") from None
    return SpotRunConfig(
        job=file.spot_job(),
        training=LoraJob(
            "job",
            copies.data,
            start_from=copies.start_from,
            start_digest=None if start is None else start.digest,
            **hyperparameters,
        ),
        base=settings.base,
        micro_batch=training.micro_batch,
        device=settings.device,
        dtype=settings.dtype,
        threads=settings.threads,
        gradient_checkpointing=training.gradient_checkpointing,
    )


def make_provider(
    trace: MarketTrace, n_max: int, *, ray: SpotRayParams | None, warm: bool
) -> ProviderFactory:
    """Return the provider of a trace: on a cluster if `ray` says where, otherwise local."""
    return LocalProvider(trace, warm) if ray is None else RayProvider(trace, ray, n_max)


def forecast_source(
    policy: Policy,
    deadline: int,
    make_forecaster: Callable[[], Forecaster],
    history: SpotMarket | None,
) -> ForecastSource:
    """Return a function that forecasts the slots up to the deadline, or to the policy's horizon.

    Args:
        policy: with its horizon, in slots; None: all slots up to the deadline.
        deadline: of the job.
        make_forecaster: called if the policy uses forecasts.
        history: slots before the job's first; None: there are none.
    """
    if policy.horizon == 0:
        return no_forecast
    forecaster = make_forecaster()

    def forecast(past: Sequence[SpotObservation], present: SpotObservation) -> Forecast | None:
        ahead = deadline - 1 - present.slot
        if policy.horizon is not None:
            ahead = min(ahead, policy.horizon)
        if not ahead:
            return None
        seen = [*past, present]
        price = np.array([observation.price for observation in seen])
        available = np.array([observation.available for observation in seen])
        if history is not None:
            price = np.concatenate([history.price, price])
            available = np.concatenate([history.available, available])
        return forecaster.forecast(SpotMarket(price, available, present.on_demand_price), ahead)

    return forecast
