"""Files and settings of `auctune spot run`, and the job and market that they describe."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from auctune.domain import InputError
from auctune.engine.elastic.gradient_worker import WorkerSettings
from auctune.engine.spot.clock import ModelClock, SlotClock, WallClock
from auctune.engine.spot.coordinator import ForecastSource
from auctune.engine.spot.job import SpotRunConfig, forecast_source, make_provider
from auctune.engine.spot.job_config import SpotRayParams, lora_job, read_policy
from auctune.engine.spot.provider import ProviderFactory
from auctune.engine.spot.traces import make_trace
from auctune.files.schema import hyperparameters_of
from auctune.service.zones.spot.state import StrategyLabels
from auctune.sim.spot.forecasts import parse_forecaster
from auctune.sim.spot.job_file import JobFile, read_job_file
from auctune.sim.spot.trace import FixedPrice, FromFile, MarketRecipe, read_market
from auctune.spot.policy import Policy
from auctune.train.adapter_files import read_start


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """How a job is run.

    Attributes:
        policy, forecast: as `NAME[:KEY=VALUE...]`.
        start: slot of the market in which the job begins.
        slot_seconds: length of a slot; None: time advances by the model, without waiting.
        warm: fork workers from a process that has everything loaded.
        device, dtype, threads: of workers.
        seed: of noise in forecasts.
        base: the base model's name; a folder by its absolute path.
        fixed_price: a constant price; None: those of the files.
        ray: cluster on which instances run; None: they are processes of this machine.
    """

    policy: str
    forecast: str
    start: int
    slot_seconds: float | None
    warm: bool
    device: str
    dtype: str
    threads: int
    seed: int
    base: str
    fixed_price: float | None
    ray: SpotRayParams | None = None


@dataclass(frozen=True, slots=True)
class RunInputs:
    """Files and settings of a run.

    Attributes:
        job, market, prices, data: the files; `prices` is None if the market's file has them.
        settings: how it is run.
        start_from: adapter that the job starts from, as of `read_start`, or None.
    """

    job: Path
    market: Path
    prices: Path | None
    data: Path
    settings: RunSettings
    start_from: Path | None = None

    def read_job(self) -> JobFile:
        """Read the job's file.

        Raises:
            InputError: naming the key.
        """
        return read_job_file(self.job)

    def recipe(self, file: JobFile) -> MarketRecipe:
        """Return where the market's counts and prices come from."""
        price: FromFile | FixedPrice | None = None
        if self.prices is not None:
            price = FromFile(self.prices)
        elif self.settings.fixed_price is not None:
            price = FixedPrice(self.settings.fixed_price)
        return MarketRecipe(
            available=FromFile(self.market),
            price=price,
            on_demand_price=file.market.on_demand_price,
            slot_seconds=file.market.slot_seconds,
        )

    @property
    def files(self) -> Mapping[str, Path]:
        """The files, by the names of the attributes."""
        names = ("job", "market", "prices", "data", "start_from")
        paths = {name: getattr(self, name) for name in names}
        return {name: path for name, path in paths.items() if path is not None}

    def with_files(self, place: Callable[[str], Path]) -> "RunInputs":
        """Return the same inputs with each file at another place."""
        moved: dict[str, Any] = {name: place(name) for name in self.files}
        return replace(self, **moved)


def find_inputs(job: Path, market: Path, prices: Path | None, settings: RunSettings) -> RunInputs:
    """Return the inputs of a new run, with data and base found beside the job's file.

    Raises:
        InputError: if the job has no training section, or its data or adapter do not exist.
    """
    training = read_job_file(job).training
    if training is None:
        raise InputError(f"{job}: training", "is missing", "[training], for a real run")
    data = job.parent / training.data
    if not data.is_file():
        raise InputError(f"{job}: training.data", f"{training.data!r} is no file", "training rows")
    start_from = None if training.start_from is None else job.parent / training.start_from
    if start_from is not None and not start_from.exists():
        found = f"there is no {training.start_from!r}"
        raise InputError(f"{job}: training.start_from", found, "an adapter's folder or archive")
    base = training.base
    if base != "tiny" and (job.parent / base).is_dir():
        base = str((job.parent / base).resolve())
    return RunInputs(job, market, prices, data, replace(settings, base=base), start_from)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedJob:
    """A job, and how it rents and trains.

    Attributes:
        config, policy, factory, forecast: as of `train_job`.
        labels: of policy and forecast, `NAME[:KEY=VALUE...]`.
        slot_seconds: length of a slot; in model time that of the market.
        make_clock: rows of the whole workload -> the clock of the run.
    """

    config: SpotRunConfig
    policy: Policy
    factory: ProviderFactory
    forecast: ForecastSource
    labels: StrategyLabels
    slot_seconds: float
    make_clock: Callable[[int], SlotClock]


def prepare_job(inputs: RunInputs, copies: RunInputs, cache: Path) -> PreparedJob:
    """Return the job that files and settings describe.

    Args:
        inputs: read now, and named in errors.
        copies: read by the job's workers.
        cache: folder of bases that are built here.

    Raises:
        InputError: naming the file or the setting.
    """
    file, settings = inputs.read_job(), inputs.settings
    recipe = inputs.recipe(file)
    market = read_market(recipe)
    config = make_config(file, inputs, copies, cache)
    job, policy = config.job, read_policy(settings.policy)
    forecaster = parse_forecaster(settings.forecast, "forecast")
    trace = make_trace(recipe, market, job, settings.start)

    def make_clock(rows: int) -> SlotClock:
        if settings.slot_seconds is None:
            return ModelClock(job, rows)
        return WallClock(settings.slot_seconds)

    return PreparedJob(
        config=config,
        policy=policy,
        factory=make_provider(trace, job.n_max, ray=settings.ray, warm=settings.warm),
        forecast=forecast_source(
            policy,
            job.deadline,
            lambda: forecaster.forecaster(market, settings.seed),
            market.between(0, settings.start) if settings.start else None,
        ),
        labels=StrategyLabels(settings.policy, settings.forecast),
        slot_seconds=settings.slot_seconds or market.slot_seconds,
        make_clock=make_clock,
    )


def make_config(file: JobFile, inputs: RunInputs, copies: RunInputs, cache: Path) -> SpotRunConfig:
    """Return what is to be run; arguments as of `prepare_job`.

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
    workers = WorkerSettings(
        base=settings.base,
        cache=str(cache.resolve()),
        job=lora_job(
            hyperparameters,
            copies.data,
            start_from=copies.start_from,
            start_digest=None if start is None else start.digest,
        ),
        device=settings.device,
        dtype=settings.dtype,
        threads=settings.threads,
        gradient_checkpointing=training.gradient_checkpointing,
    )
    return SpotRunConfig(job=file.spot_job(), workers=workers, micro_batch=training.micro_batch)
