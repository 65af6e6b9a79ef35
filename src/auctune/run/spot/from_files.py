"""A real run from files: what `run_spot_job` needs, made of what a person wrote."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from auctune.domain import InputError
from auctune.domain.dataset import read_dataset
from auctune.parameter_text import parse_label
from auctune.registry import spot_policy
from auctune.run.spot.clock import ModelClock, SlotClock, WallClock
from auctune.run.spot.cluster.supply import ClusterSupply
from auctune.run.spot.folder import SpotFolder
from auctune.run.spot.foresight import Foresee, Foresight, NoForesight
from auctune.run.spot.inputs import (
    RunInputs,
    RunSettings,
    inputs_in,
    keep_inputs,
    kept_inputs,
)
from auctune.run.spot.job import nothing, run_spot_job
from auctune.run.spot.listener import SpotListener
from auctune.run.spot.market_provider import ReplayedMarket
from auctune.run.spot.order import SpotOrder
from auctune.run.spot.provider import Supply
from auctune.run.spot.report import SpotRunReport
from auctune.run.spot.trace import MarketTrace
from auctune.run.spot_ray_params import SpotRayParams
from auctune.sim.spot.files import read_record
from auctune.sim.spot.forecasts import parse_forecaster
from auctune.sim.spot.job_file import JobFile
from auctune.sim.spot.trace import MarketRecipe, read_market
from auctune.spot.job import SpotJob
from auctune.spot.market import SpotMarket
from auctune.spot.policy import Policy
from auctune.train.job import LoraJob


def begin_files(
    given: RunInputs, folder: Path, *, cache: Path, listener: SpotListener
) -> SpotRunReport:
    """Run the job of some files, of which the folder gets copies.

    Args:
        given: the files.
        folder: of the run; new or empty.
        cache: folder of bases that are built here.
        listener: told of everything.

    Raises:
        InputError: if a file is wrong, or as of `run_spot_job`; the folder is then as it was.
        InfeasibleAllocationError: as of `run_spot_job`.
        SpotRunError: as of `run_spot_job`.
    """
    check_files(given)
    place = SpotFolder(folder)
    kept = inputs_in(place, given.settings, has_prices=given.prices is not None)
    return _run(
        given,
        make_order(given.read_job(), kept),
        place,
        cache=cache,
        listener=listener,
        prepare=lambda: keep_inputs(given, place),
        resume=False,
    )


def resume_files(folder: Path, *, cache: Path, listener: SpotListener) -> SpotRunReport:
    """Go on with the run in a folder; one that was stopped before it began begins now.

    Args:
        folder: of the run.
        cache: folder of bases that are built here.
        listener: told of everything.

    Raises:
        InputError: if there is no run, or a copy is wrong, or as of `run_spot_job`.
        InfeasibleAllocationError: as of `run_spot_job`.
        SpotRunError: as of `run_spot_job`.
    """
    place = SpotFolder(folder)
    kept = kept_inputs(place)
    order = make_order(kept.read_job(), kept)
    return _run(
        kept,
        order,
        place,
        cache=cache,
        listener=listener,
        prepare=nothing,
        resume=place.has_started,
    )


def _run(
    inputs: RunInputs,
    order: SpotOrder,
    place: SpotFolder,
    *,
    cache: Path,
    listener: SpotListener,
    prepare: Callable[[], object],
    resume: bool,
) -> SpotRunReport:
    settings = inputs.settings
    recipe = inputs.recipe(inputs.read_job())
    market = read_market(recipe)
    policy = read_policy(settings.policy)

    def make_clock(rows: int) -> SlotClock:
        if settings.slot_seconds is None:
            return ModelClock(order.job, rows)
        return WallClock(settings.slot_seconds)

    return run_spot_job(
        order,
        policy,
        make_supply(make_trace(recipe, market, order.job, settings.start), order.job, settings),
        place.root,
        cache=cache,
        make_clock=make_clock,
        foresee=make_foresight(policy, order.job, market, settings),
        listener=listener,
        resume=resume,
        prepare=prepare,
    )


def check_files(inputs: RunInputs) -> None:
    """Refuse what cannot be run, before anything is copied or loaded.

    Raises:
        InputError: naming the file or the setting.
    """
    file, settings = inputs.read_job(), inputs.settings
    recipe = inputs.recipe(file)
    market = read_market(recipe)
    policy = read_policy(settings.policy)
    order = make_order(file, inputs)
    trace = make_trace(recipe, market, order.job, settings.start)
    make_supply(trace, order.job, settings).check(order.job)
    make_foresight(policy, order.job, market, settings)
    # By the name that the user gave it, not by that of its copy.
    read_dataset(inputs.data)


def make_order(file: JobFile, inputs: RunInputs) -> SpotOrder:
    """What is to be trained.

    Raises:
        InputError: if the job says nothing of training.
    """
    training, settings = file.training, inputs.settings
    if training is None:
        raise InputError(f"{inputs.job}: training", "is missing", "[training], for a real run")
    return SpotOrder(
        job=file.spot_job(),
        training=LoraJob("job", inputs.data, **training.hyperparameters()),
        base=settings.base,
        micro_batch=training.micro_batch,
        device=settings.device,
        dtype=settings.dtype,
        threads=settings.threads,
    )


def read_policy(label: str) -> Policy:
    """The policy of a text.

    Raises:
        InputError: naming `policy` or the setting.
    """
    name, settings = parse_label(label, "policy", "policy")
    return spot_policy(name, settings)


def make_supply(trace: MarketTrace, job: SpotJob, settings: RunSettings) -> Supply:
    """Who rents out instances."""
    if settings.ray is None:
        return ReplayedMarket(trace, settings.warm)
    return ClusterSupply(trace, SpotRayParams.from_record(settings.ray), job.n_max)


def make_trace(recipe: MarketRecipe, market: SpotMarket, job: SpotJob, start: int) -> MarketTrace:
    """The market from the job's beginning on, as fine as its files.

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


def make_foresight(
    policy: Policy, job: SpotJob, market: SpotMarket, settings: RunSettings
) -> Foresee:
    """What the policy gets to see of the time to come.

    Raises:
        InputError: if there is no such forecaster here.
    """
    foretelling = parse_forecaster(settings.forecast, "forecast")
    if policy.horizon == 0:
        return NoForesight()
    forecaster = foretelling.forecaster(market, settings.seed)
    history = market.between(0, settings.start) if settings.start else None
    return Foresight(forecaster, history, policy.horizon, job.deadline)
