"""Training of one job on rented instances, from where its log ends, to its adapter."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from math import inf
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from auctune.domain import AuctuneError, InputError
from auctune.domain.checks import check_count
from auctune.engine.elastic.errors import SlotError, read_failure
from auctune.engine.elastic.gradient_worker import WORKER, WorkerSettings, gradient_worker
from auctune.engine.elastic.reducer import reducer_worker
from auctune.engine.elastic.trainer import ElasticTrainer, JobFacts, read_facts
from auctune.engine.messages.elastic import Export, Exported, LoadFile
from auctune.engine.runtime.local import start_fork_server, start_worker
from auctune.engine.runtime.requests import STUCK_SECONDS, RequestWorker, WorkerEndedError
from auctune.engine.runtime.worker import WorkerSpec
from auctune.engine.spot.clock import SlotClock
from auctune.engine.spot.coordinator import Coordinator, ForecastSource, no_forecast
from auctune.engine.spot.job_config import SpotRayParams
from auctune.engine.spot.provider import LocalProvider, ProviderFactory, cannot_start
from auctune.engine.spot.ray_workers import RayProvider
from auctune.engine.spot.state import (
    VERSION,
    DataNoted,
    OnEvent,
    RunLog,
    SpotRunState,
    Warned,
    ignore_event,
)
from auctune.engine.spot.traces import MarketTrace
from auctune.engine.spot.worker_pool import WorkerPool
from auctune.spot.forecasts.forecast import Forecast, Forecaster
from auctune.spot.job import SpotJob
from auctune.spot.market import SpotMarket
from auctune.spot.policy import Policy, SpotObservation
from auctune.train.adapter_files import EPOCHS, publish_epochs, write_adapter_files
from auctune.train.checkpoint import CHECKPOINTS, newest_number
from auctune.train.row_cursor import RowCursor

_MAX_FAILURES = 3

_log = logging.getLogger(__name__)

T = TypeVar("T")

MakeClock = Callable[[int], SlotClock]
"""Rows of the whole workload -> the clock of the run."""


@dataclass(frozen=True, slots=True)
class SpotFolder:
    """Paths of a job's run, in the folder `root`."""

    root: Path

    @property
    def state(self) -> Path:
        """What a resumed run needs."""
        return self.root / "state"

    @property
    def adapter(self) -> Path:
        """The result, in PEFT's format; those of the last epochs are in epochs/N."""
        return self.root / "adapter"

    @property
    def worker_log(self) -> Path:
        """Standard error of the workers."""
        return self.state / "workers.log"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotRunConfig:
    """What to run: the job as the market sees it, and as its workers do.

    Attributes:
        job: workload, deadline, value and bounds; all rows of all epochs are its workload.
        workers: settings of the workers; a batch of their job is that of all instances.
        micro_batch: rows that go through the model together on one instance.
    """

    job: SpotJob
    workers: WorkerSettings
    micro_batch: int

    def __post_init__(self) -> None:
        batch_size = self.workers.job.batch_size
        if not 1 <= self.micro_batch <= batch_size:
            expected = f"1 to batch_size = {batch_size} rows"
            raise InputError("micro_batch", f"{self.micro_batch!r}", expected)
        check_count(self.workers.threads, "threads", 1)

    def identity(self) -> dict[str, Any]:
        """Return what must be the same when a run is resumed, as JSON can hold it."""
        training = asdict(self.workers.job)
        # Files may move; their contents are compared by digests.
        for name in ("data", "validation"):
            del training[name]
        # Logs of earlier releases have the key.
        training["start_from"] = None
        return {
            "job": repr(self.job),
            "training": training | {"target_modules": list(training["target_modules"])},
            "base": self.workers.base,
            "micro_batch": self.micro_batch,
            "dtype": self.workers.dtype,
            "threads": self.workers.threads,
        }


def train_job(
    config: SpotRunConfig,
    policy: Policy,
    factory: ProviderFactory,
    place: SpotFolder,
    log: RunLog,
    *,
    make_clock: MakeClock,
    forecast: ForecastSource = no_forecast,
    on_event: OnEvent = ignore_event,
    saved_every: float = 30.0,
    cap: float = inf,
    should_stop: Callable[[], bool] = lambda: False,
) -> int:
    """Train a job on preemptible instances until it has ended, from where its log ends.

    Args:
        config: the job.
        policy: chooses allocations.
        factory: opens the provider of instances.
        place: of checkpoints, adapters and the workers' log.
        log: of the run.
        make_clock: see `auctune.engine.spot.clock`.
        forecast: makes the policy's forecasts.
        on_event: called with every event.
        saved_every: seconds between checkpoints within a slot; there is one at each slot's end.
        cap: maximum cost, in the market's unit.
        should_stop: returns whether the run is to stop; it can be resumed.

    Returns:
        Rows of the whole workload.

    Raises:
        InputError: if the log is of another run; if the job or the provider cannot be used.
        InfeasibleAllocationError: if the policy's allocation is not allowed.
        SpotRunError: if workers crash again and again.
        CapReachedError: if the next slot would cost more than `cap`.
        StoppedError: if it was stopped.
    """
    identity = {
        "version": VERSION,
        "policy": policy.name,
        **config.identity(),
        **factory.identity(),
    }
    _check_identity(log, identity)
    settings = config.workers
    local = _LocalWorkers(settings, place, factory.is_warm(settings))
    facts = _persist(local.read_facts, lambda: 0, on_event)
    for note in facts.notes:
        on_event(DataNoted(note))
    digests = {"base_digest": facts.base_digest, "data_digest": facts.counts.digest}
    _check_identity(log, digests)
    if not log.events:
        log.append({"type": "begun", "time": 0.0, **identity, **digests})
    clock: SlotClock | None = None

    def train() -> None:
        nonlocal clock
        with (
            closing(factory.open(settings, place.worker_log)) as provider,
            local.reducer() as reducer,
        ):
            trainer = ElasticTrainer(settings.job, facts, reducer, place.state, config.micro_batch)
            for warning in trainer.warnings:
                on_event(Warned(warning))
            pool = WorkerPool(trainer)
            clock = clock or make_clock(trainer.total_rows)
            coordinator = Coordinator(
                job=config.job,
                policy=policy,
                forecast=forecast,
                trainer=trainer,
                pool=pool,
                provider=provider,
                clock=clock,
                log=log,
                on_event=on_event,
                saved_every=saved_every,
                cap=cap,
                should_stop=should_stop,
            )
            coordinator.run()
            # The adapter is written before the end is recorded.
            if trainer.state == "done":
                _write_adapters(trainer, pool, local, place, on_event)
            coordinator.end()

    if SpotRunState.fold(log.events).ended is None:
        _persist(train, lambda: newest_number(place.state / CHECKPOINTS), on_event)
    return RowCursor(settings.job, facts.counts).total_rows


def _check_identity(log: RunLog, identity: Mapping[str, object]) -> None:
    """Make sure that a resumed run is the one that was begun; a new one has no event yet.

    Raises:
        InputError: naming the value of `identity` that the first event does not have.
    """
    for begun in log.events[:1]:
        for name, value in identity.items():
            if begun.get(name) != value:
                expected = f"{begun.get(name)!r}, with which the run began"
                raise InputError(name, f"{value!r}", expected)


def _persist(action: Callable[[], T], progress: Callable[[], int], on_event: OnEvent) -> T:
    """Return what an action returns; while its own workers end, and it gets on, do it again.

    Args:
        action: resumes where it was.
        progress: returns how far it has come.
        on_event: called with what has ended.

    Raises:
        WorkerEndedError, SlotError: if it comes no further in some attempts in a row.
    """
    before, num_failures = progress(), 0
    while True:
        try:
            return action()
        except (WorkerEndedError, SlotError) as error:
            # The job's owner is not to know what the log of workers has.
            _log.warning("a process of a run has ended, or failed: %s", error)
            now = progress()
            num_failures = 1 if now > before else num_failures + 1
            before = now
            if num_failures == _MAX_FAILURES:
                raise
            on_event(Warned("a process of the run has ended and is started again"))


class _LocalWorkers:
    """Workers of a run that are processes beside it, and are not rented.

    Args:
        settings: of gradient workers.
        place: of the run.
        is_warm: whether the fork server is to load base and data.
    """

    def __init__(self, settings: WorkerSettings, place: SpotFolder, is_warm: bool) -> None:
        # It may be the head of a cluster, without a GPU.
        self._gradients = gradient_worker(replace(settings, device="cpu"), place.worker_log)
        self._reducer = reducer_worker(settings.job, settings.threads, place.worker_log)
        start_fork_server(*((WORKER, self._gradients.argument) if is_warm else ()))

    def read_facts(self) -> JobFacts:
        """Return what there is to train."""
        with self.gradients() as worker:
            return read_facts(worker)

    def gradients(self) -> AbstractContextManager[RequestWorker]:
        """Start a gradient worker for a block."""
        return _started(self._gradients)

    def reducer(self) -> AbstractContextManager[RequestWorker]:
        """Start the reducer for a block."""
        return _started(self._reducer)


@contextmanager
def _started(spec: WorkerSpec) -> Iterator[RequestWorker]:
    try:
        worker = RequestWorker(partial(start_worker, spec), read_failure)
    except (OSError, RuntimeError) as error:
        raise cannot_start(error) from None
    try:
        yield worker
    finally:
        worker.kill()


def _write_adapters(
    trainer: ElasticTrainer,
    pool: WorkerPool,
    local: _LocalWorkers,
    place: SpotFolder,
    on_event: OnEvent,
) -> None:
    """Write the adapter, and those of the last epochs.

    Raises:
        AuctuneError: if no worker can.
    """
    # Of a run that began under a release that wrote them with each checkpoint.
    publish_epochs(place.state, place.root)
    for metrics, weights in trainer.adapters():
        request = Export(metrics=metrics, arrays=[weights])
        folder = place.adapter if metrics is None else place.root / EPOCHS / f"{metrics.epoch}"
        files = _export(request, pool, local, on_event)
        contents = (array.tobytes() for array in files.arrays)
        write_adapter_files(folder, dict(zip(files.names, contents, strict=True)))


def _export(request: Export, pool: WorkerPool, local: _LocalWorkers, on_event: OnEvent) -> Exported:
    """Have a worker make the files of an adapter: a rented one if any can, which has the base."""
    for instance, worker in pool.idle:
        try:
            exported: Exported = worker.result(worker.request(request), STUCK_SECONDS)
            return exported
        except AuctuneError as error:
            _log.warning("%s could not write an adapter: %s", instance, error)
            on_event(
                Warned(f"{instance}: its worker could not write the adapter; another one does")
            )
    with local.gradients() as worker:
        answers = [worker.request(LoadFile()), worker.request(request)]
        _, exported = (worker.result(one) for one in answers)
        return exported


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
