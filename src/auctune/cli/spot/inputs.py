"""From options of `auctune spot` to jobs, markets, policies and forecasters."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from auctune.domain.checks import check_count
from auctune.domain.errors import InputError

if TYPE_CHECKING:
    from auctune.sim.spot.benchmark import Start
    from auctune.sim.spot.foretelling import Foretelling
    from auctune.sim.spot.job_file import JobFile
    from auctune.sim.spot.recipe import FixedPrice, FromFile
    from auctune.sim.spot.trials import Advance, Trials
    from auctune.spot import Policy, SpotJob, SpotMarket

DEFAULT_POOL = "default"

# What every policy did in every slot of each is held in memory.
MOST_JOBS = 100_000


def read_policy(label: str) -> "Policy":
    """The policy of a text such as `ahap:window=5`.

    Raises:
        InputError: naming `--policy`.
    """
    from auctune.parameter_text import parse_label
    from auctune.registry import spot_policy

    name, settings = parse_label(label, "--policy", "policy")
    try:
        return spot_policy(name, settings)
    except InputError as error:
        place = "--policy" if error.place == "policy" else f"--policy {label}: {error.place}"
        raise InputError(place, error.found, error.expected) from None


def read_policies(labels: Sequence[str] | None) -> "list[Policy]":
    """The policies of texts, each once; none: one of each kind.

    Raises:
        InputError: naming `--policy`.
    """
    from auctune.registry import spot_policy_names

    policies = [read_policy(label) for label in labels or spot_policy_names()]
    for index, policy in enumerate(policies):
        if policy in policies[:index]:
            raise InputError("--policy", f"{policy.name} is there twice", "each policy once")
    return policies


def read_pool(pool: str) -> "tuple[Policy, ...]":
    """The policies of a pool's file, or the default ones.

    Raises:
        InputError: naming the file and the key.
    """
    if pool == DEFAULT_POOL:
        from auctune.spot import default_pool

        return default_pool()
    from auctune.sim.spot.pool_file import read_pool as read

    return read(Path(pool))


def read_foretelling(label: str) -> "Foretelling":
    """The forecaster of a text such as `noisy:error=0.3`.

    Raises:
        InputError: naming `--forecast`.
    """
    from auctune.sim.spot.foretelling import parse_foretelling

    return parse_foretelling(label, "--forecast")


@dataclass(frozen=True, slots=True)
class Given:
    """A job, and the markets it may run on.

    Attributes:
        file: the job's.
        job: in it.
        markets: one, or one for each file of prices.
    """

    file: "JobFile"
    job: "SpotJob"
    markets: "list[SpotMarket]"


def read_given(job: Path, market: Path, prices: Sequence[Path], fixed_price: float | None) -> Given:
    """The job and the markets of files.

    Raises:
        InputError: naming the file, or an option that says nothing.
    """
    from auctune.sim.spot.job_file import read_job_file
    from auctune.sim.spot.recipe import FromFile, MarketRecipe, read_market

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
    return Given(file, file.spot_job(), markets)


def _price_sources(
    prices: Sequence[Path], fixed_price: float | None
) -> "Sequence[FromFile | FixedPrice | None]":
    from auctune.sim.spot.recipe import FixedPrice, FromFile

    if fixed_price is None:
        return [FromFile(path) for path in prices] or [None]
    if prices:
        raise InputError("--fixed-price", "is given with --prices", "one of the two")
    try:
        return [FixedPrice(fixed_price)]
    except InputError as error:
        raise InputError("--fixed-price", error.found, error.expected) from None


def random_starts(given: Given, num_jobs: int, past: int, seed: int) -> "tuple[Start, ...]":
    """Where a job begins, so many times.

    Raises:
        InputError: naming an option, if a market is too short.
    """
    from auctune.sim.spot.benchmark import draw_starts

    check_count(num_jobs, "--jobs", 1)
    if num_jobs > MOST_JOBS:
        raise InputError("--jobs", f"{num_jobs}", f"at most {MOST_JOBS}")
    check_count(past, "--past", 0)
    try:
        return draw_starts(given.markets, num_jobs, given.job.deadline, past=past, seed=seed)
    except InputError as error:
        expected = f"{error.expected}: --past and the job's deadline"
        raise InputError("--market", error.found, expected) from None


def random_jobs(
    job: "SpotJob", texts: Sequence[str] | None, num_jobs: int, seed: int
) -> "tuple[SpotJob, ...]":
    """Jobs of random size; none where nothing is to vary.

    Raises:
        InputError: naming `--vary`.
    """
    from auctune.sim.spot.variation import parse_variation

    if not texts:
        return ()
    variation = parse_variation(texts, "--vary")
    try:
        return variation.draw(job, num_jobs, seed)
    except InputError as error:
        raise InputError(f"--vary: {error.place}", error.found, error.expected) from None


def trials_of(
    given: Given,
    starts: "Sequence[Start]",
    policies: "Sequence[Policy]",
    foretelling: "Foretelling",
    *,
    seed: int,
    cache: Path | None,
    advance: "Advance | None" = None,
) -> "Trials":
    """What policies are tried on, with the forecasts that they need.

    Args:
        given: job and markets.
        starts: where the job begins.
        policies: that will be tried.
        foretelling: how to forecast.
        seed: of noise.
        cache: as `--cache` names it; none: the user's.
        advance: told after each trial's forecasts.

    Raises:
        InputError: if a forecaster is not there, or the cache cannot be written.
    """
    from auctune.sim.spot.trials import make_trials

    return make_trials(
        given.job, given.markets, starts, foretelling, policies, seed=seed,
        cache=_cache_folder(cache), advance=advance,
    )  # fmt: skip


def _cache_folder(given: Path | None) -> Path | None:
    """Where forecasts are kept; none where the user's cache cannot be written."""
    from auctune.sim.spot.forecast_cache import user_cache

    if given is not None:
        return given
    folder = user_cache()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return folder if os.access(folder, os.W_OK) else None
