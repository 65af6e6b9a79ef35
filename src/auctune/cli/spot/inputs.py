"""From options of `auctune spot` to jobs, markets, policies and forecasters."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from auctune.domain.errors import InputError

if TYPE_CHECKING:
    from auctune.sim.spot.foretelling import Foretelling
    from auctune.sim.spot.job_file import JobFile
    from auctune.sim.spot.recipe import MarketRecipe
    from auctune.spot import Policy, SpotMarket

DEFAULT_POOL = "default"


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


def recipes(
    job: "JobFile", market: Path, prices: Sequence[Path], fixed_price: float | None
) -> "list[MarketRecipe]":
    """What the markets are put together from: one, or one for each file of prices.

    Raises:
        InputError: for a price that is none, or both kinds of them.
    """
    from auctune.sim.spot.recipe import FixedPrice, FromFile, MarketRecipe

    if prices and fixed_price is not None:
        raise InputError("--fixed-price", "is given with --prices", "one of the two")
    sources: list[FromFile | FixedPrice | None] = [FromFile(path) for path in prices]
    if fixed_price is not None:
        try:
            sources = [FixedPrice(fixed_price)]
        except InputError as error:
            raise InputError("--fixed-price", error.found, error.expected) from None
    entry = job.market
    return [
        MarketRecipe(
            available=FromFile(market),
            price=source,
            on_demand_price=entry.on_demand_price,
            slot_seconds=entry.slot_seconds,
        )
        for source in sources or [None]
    ]


def read_markets(recipes: "Sequence[MarketRecipe]") -> "list[SpotMarket]":
    """The markets, slot by slot.

    Raises:
        InputError: naming the file.
    """
    from auctune.sim.spot.recipe import read_market

    return [read_market(recipe) for recipe in recipes]


def check_count(option: str, value: int, least: int = 1) -> None:
    """Refuse a count that is too low.

    Raises:
        InputError: naming the option.
    """
    if value < least:
        raise InputError(option, f"{value}", f"a whole number >= {least}")
