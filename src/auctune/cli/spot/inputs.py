"""Options of `auctune spot`, and the jobs, markets, policies and forecasters that they select."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from auctune.cli._support.options import LABEL, Charts, parse_labels, refuse_combined
from auctune.domain.checks import check_count
from auctune.domain.errors import InputError
from auctune.registry.policies import SPOT_POLICIES
from auctune.sim.spot import trials as spot_trials
from auctune.sim.spot.forecasts import ForecasterSpec, parse_forecaster, user_cache
from auctune.sim.spot.job_file import JobFile, read_job_file
from auctune.sim.spot.pool_file import read_pool as read_pool_file
from auctune.sim.spot.trace import FixedPrice as FixedPriceSource
from auctune.sim.spot.trace import FromFile, MarketRecipe, read_market
from auctune.sim.spot.trials import Start, draw_starts, parse_variation
from auctune.spot import Policy as SpotPolicy
from auctune.spot import SpotJob, SpotMarket, default_pool

MARKET_HELP = "The market: CSV with t_s, available and price."
JOB_HELP = "The job: JOB.toml."
POLICIES = "ahap, ahanp, od-only, msu, up or robust"
FORECASTERS = "perfect, seasonal, chain, arima or noisy"
DEFAULT_POOL = "default"
# The actions of each policy in each slot of each job are held in memory.
_MAX_JOBS = 100_000

Prices = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="FILE", help="Prices, instead of those in --market; repeatable, a market each."
    ),
]
OnePrice = Annotated[
    Path | None,
    typer.Option("--prices", metavar="FILE", help="Prices, instead of those in --market."),
]
FixedPrice = Annotated[
    float | None,
    typer.Option(help="Constant price, in the currency of the on-demand price."),
]
Policy = Annotated[str, typer.Option(metavar=LABEL, help=f"The policy: {POLICIES}.")]
Forecast = Annotated[str, typer.Option(metavar=LABEL, help=f"The forecaster: {FORECASTERS}.")]
Jobs = Annotated[int, typer.Option(help="Number of random starts.")]
Vary = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=VALUES",
        help="Random size of jobs: workload=60-100, n_min=1,2,4, n_max=8,12,16; repeatable.",
    ),
]
Past = Annotated[int, typer.Option(help="Minimum number of slots before a random start.")]
Seed = Annotated[int, typer.Option(help="Random seed.")]


@dataclass(frozen=True, slots=True)
class TrialOptions:
    """Options of commands that simulate policies on a job."""

    market: Annotated[Path, typer.Option(metavar="FILE", help=MARKET_HELP, show_default=False)]
    job: Annotated[Path, typer.Option(metavar="FILE", help=JOB_HELP, show_default=False)]
    forecast: Forecast = "chain"
    seed: Seed = 0
    fixed_price: FixedPrice = None
    cache: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Cache of arima's forecasts. Default: ~/.cache/auctune/forecasts."
        ),
    ] = None
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the simulated jobs (parquet).")
    ] = None
    charts: Charts = None


@dataclass(frozen=True, slots=True)
class SpotInputs:
    """A job and its file, and its markets: one, or one per file of prices."""

    file: JobFile
    job: SpotJob
    markets: list[SpotMarket]


def read_policies(labels: Sequence[str]) -> list[SpotPolicy]:
    """Make policies such as `ahap:window=5`."""
    return parse_labels(labels, "--policy", SPOT_POLICIES)


def read_pool(pool: str) -> tuple[SpotPolicy, ...]:
    """Read the policies of a pool file, or the default pool."""
    return default_pool() if pool == DEFAULT_POOL else read_pool_file(Path(pool))


def read_forecaster(label: str) -> ForecasterSpec:
    """Return the forecaster that a label such as `noisy:error=0.3` names."""
    return parse_forecaster(label, "--forecast")


def read_inputs(
    job: Path, market: Path, prices: Sequence[Path], fixed_price: float | None
) -> SpotInputs:
    """Read a job file and its markets."""
    file = read_job_file(job)
    markets = [
        read_market(
            MarketRecipe(
                available=FromFile(market),
                price=source,
                on_demand_price=file.market.on_demand_price,
                slot_seconds=file.market.slot_seconds,
            )
        )
        for source in _price_sources(prices, fixed_price)
    ]
    return SpotInputs(file, file.spot_job(), markets)


def check_prices(prices: object, fixed_price: float | None) -> None:
    """Refuse `--prices` with `--fixed-price`."""
    if prices:
        refuse_combined("--prices", {"--fixed-price": fixed_price is not None}, "one of the two")


def _price_sources(
    prices: Sequence[Path], fixed_price: float | None
) -> Sequence[FromFile | FixedPriceSource | None]:
    if fixed_price is None:
        return [FromFile(path) for path in prices] or [None]
    check_prices(prices, fixed_price)
    try:
        return [FixedPriceSource(fixed_price)]
    except InputError as error:
        raise error.at("--fixed-price") from None


def random_starts(inputs: SpotInputs, num_jobs: int, past: int, seed: int) -> tuple[Start, ...]:
    """Draw the starts of a job."""
    check_count(num_jobs, "--jobs", 1)
    if num_jobs > _MAX_JOBS:
        raise InputError("--jobs", f"{num_jobs}", f"at most {_MAX_JOBS}")
    check_count(past, "--past", 0)
    try:
        return draw_starts(inputs.markets, num_jobs, inputs.job.deadline, past=past, seed=seed)
    except InputError as error:
        expected = f"{error.expected}: --past and the job's deadline"
        raise InputError("--market", error.found, expected) from None


def random_jobs(
    job: SpotJob, texts: Sequence[str] | None, num_jobs: int, seed: int
) -> tuple[SpotJob, ...]:
    """Draw jobs of random size, or none without texts."""
    if not texts:
        return ()
    variation = parse_variation(texts, "--vary")
    try:
        return variation.draw(job, num_jobs, seed)
    except InputError as error:
        raise error.at(f"--vary: {error.place}") from None


def make_trials(
    inputs: SpotInputs,
    starts: Sequence[Start],
    policies: Sequence[SpotPolicy],
    forecaster: ForecasterSpec,
    options: TrialOptions,
    advance: spot_trials.Advance | None = None,
) -> spot_trials.Trials:
    """Make the forecasts that policies need at each start of the job.

    `options` have the seed of the noise and the cache; `advance` is called after each start.
    """
    return spot_trials.make_trials(
        inputs.job, inputs.markets, starts, forecaster, policies, seed=options.seed,
        cache=_cache_folder(options.cache), advance=advance,
    )  # fmt: skip


def _cache_folder(cache: Path | None) -> Path | None:
    """Return the folder for forecasts, or `None` if the user's cache cannot be written."""
    if cache is not None:
        return cache
    folder = user_cache()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return folder if os.access(folder, os.W_OK) else None
