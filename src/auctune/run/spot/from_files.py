"""A run from files: the arguments of `run_spot_job`, from a job file and a recorded market."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from auctune.domain import InputError
from auctune.domain.dataset import read_dataset
from auctune.run.spot.clock import ModelClock, SlotClock, WallClock
from auctune.run.spot.coordinator import ForecastSource, no_forecast
from auctune.run.spot.events import OnEvent
from auctune.run.spot.inputs import (
    RunInputs,
    RunSettings,
    SpotFolder,
    copy_inputs,
    inputs_in,
    read_inputs,
)
from auctune.run.spot.job import SpotRunConfig, run_spot_job
from auctune.run.spot.job_config import SpotRayParams
from auctune.run.spot.launcher import LocalProvider
from auctune.run.spot.provider import ProviderFactory
from auctune.run.spot.ray_workers import RayProvider
from auctune.run.spot.report import SpotRunReport
from auctune.run.spot.strategy import read_policy
from auctune.run.spot.traces import MarketTrace
from auctune.sim.spot.files import read_record
from auctune.sim.spot.forecasts import parse_forecaster
from auctune.sim.spot.job_file import JobFile
from auctune.sim.spot.trace import MarketRecipe, read_market
from auctune.spot.forecasts.forecast import Forecast, Forecaster
from auctune.spot.job import SpotJob
from auctune.spot.market import SpotMarket
from auctune.spot.policy import Policy, SpotObservation
from auctune.train.job import LoraJob


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
    check_inputs(inputs)
    place = SpotFolder(folder)
    copies = inputs_in(place, inputs.settings, has_prices=inputs.prices is not None)
    return _run(
        inputs,
        make_config(inputs.read_job(), copies),
        place,
        cache=cache,
        on_event=on_event,
        prepare=lambda: copy_inputs(inputs, place),
        resume=False,
    )


def resume_run(folder: Path, *, cache: Path, on_event: OnEvent) -> SpotRunReport:
    """Resume the run in a folder, or begin it if it was stopped before its first event.

    Args:
        folder: of the run.
        cache: folder of bases that are built here.
        on_event: called with every event.

    Raises:
        InputError: if there is no run, or a copy is wrong, or as of `run_spot_job`.
        InfeasibleAllocationError: as of `run_spot_job`.
        SpotRunError: as of `run_spot_job`.
    """
    place = SpotFolder(folder)
    inputs = read_inputs(place)
    return _run(
        inputs,
        make_config(inputs.read_job(), inputs),
        place,
        cache=cache,
        on_event=on_event,
        prepare=lambda: None,
        resume=place.has_started,
    )


def _run(
    inputs: RunInputs,
    config: SpotRunConfig,
    place: SpotFolder,
    *,
    cache: Path,
    on_event: OnEvent,
    prepare: Callable[[], object],
    resume: bool,
) -> SpotRunReport:
    settings = inputs.settings
    recipe = inputs.recipe(inputs.read_job())
    market = read_market(recipe)
    policy = read_policy(settings.policy)
    trace = make_trace(recipe, market, config.job, settings.start)

    def make_clock(rows: int) -> SlotClock:
        if settings.slot_seconds is None:
            return ModelClock(config.job, rows)
        return WallClock(settings.slot_seconds)

    return run_spot_job(
        config,
        policy,
        make_provider(trace, config.job.n_max, ray=settings.ray, warm=settings.warm),
        place.root,
        cache=cache,
        make_clock=make_clock,
        forecast=_forecast_source(policy, config.job, market, settings),
        on_event=on_event,
        resume=resume,
        prepare=prepare,
    )


def check_inputs(inputs: RunInputs) -> None:
    """Refuse what cannot be run, before anything is copied or loaded.

    Raises:
        InputError: naming the file or the setting.
    """
    file, settings = inputs.read_job(), inputs.settings
    recipe = inputs.recipe(file)
    market = read_market(recipe)
    policy = read_policy(settings.policy)
    job = make_config(file, inputs).job
    trace = make_trace(recipe, market, job, settings.start)
    make_provider(trace, job.n_max, ray=settings.ray, warm=settings.warm).check(job)
    _forecast_source(policy, job, market, settings)
    # Errors name the user's file, not its copy.
    read_dataset(inputs.data)


def make_config(file: JobFile, inputs: RunInputs) -> SpotRunConfig:
    """Return what is to be run.

    Raises:
        InputError: if the job has no training section.
    """
    training, settings = file.training, inputs.settings
    if training is None:
        raise InputError(f"{inputs.job}: training", "is missing", "[training], for a real run")
    return SpotRunConfig(
        job=file.spot_job(),
        training=LoraJob("job", inputs.data, **training.hyperparameters()),
        base=settings.base,
        micro_batch=training.micro_batch,
        device=settings.device,
        dtype=settings.dtype,
        threads=settings.threads,
    )


def make_trace(recipe: MarketRecipe, market: SpotMarket, job: SpotJob, start: int) -> MarketTrace:
    """Return the market from the job's start on, as fine as its files.

    Raises:
        InputError: if it ends before the job's deadline.
    """
    if not 0 <= start <= market.num_slots - job.deadline:
        latest = market.num_slots - job.deadline
        expected = f"0 to {latest}: of {market.num_slots} slots the job may take {job.deadline}"
        if latest < 0:
            expected = f"a market of {job.deadline} slots at least, not {market.num_slots}"
        raise InputError("start", f"{start}", expected)
    record = read_record(recipe)
    seconds = market.slot_seconds
    end = int(np.searchsorted(record.seconds, market.num_slots * seconds, side="left"))
    return MarketTrace.of_seconds(
        record.seconds[:end],
        record.price[:end],
        record.available[:end],
        slot_seconds=seconds,
        start=start * seconds,
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


def _forecast_source(
    policy: Policy, job: SpotJob, market: SpotMarket, settings: RunSettings
) -> ForecastSource:
    """Return the forecasts of a run.

    Raises:
        InputError: if there is no such forecaster.
    """
    spec = parse_forecaster(settings.forecast, "forecast")
    history = market.between(0, settings.start) if settings.start else None
    return forecast_source(
        policy, job.deadline, lambda: spec.forecaster(market, settings.seed), history
    )
