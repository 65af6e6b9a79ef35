"""`auctune spot advise`: for one job, what to hold now and what is likely to come of it."""

from typing import TYPE_CHECKING, Annotated

import typer

from auctune.cli.progress import Bars
from auctune.cli.spot.inputs import check_count, read_foretelling, read_given, read_policy
from auctune.cli.spot.options import FixedPrice, Forecast, Job, Market, OnePrice, Policy, Seed
from auctune.domain.errors import InputError

if TYPE_CHECKING:
    from auctune.spot import SpotMarket


def advise(
    market: Market,
    job: Job,
    policy: Policy = "robust:risk=0.05",
    forecast: Forecast = "seasonal",
    start: Annotated[
        int | None,
        typer.Option(help="Slot of the market in which the job began; none: it begins now."),
    ] = None,
    now: Annotated[
        int | None, typer.Option(help="The present slot of the market; none: its last one.")
    ] = None,
    futures: Annotated[int, typer.Option(help="Possible futures that are looked at.")] = 200,
    seed: Seed = 0,
    prices: OnePrice = None,
    fixed_price: FixedPrice = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Say what a job should hold now, and what is likely.

    Its expected cost, its finish (p50, p90), and the risk of being late.

    The market's past, up to the present slot, is all that is used: nothing after it is read.
    """
    check_count("--futures", futures)
    rented, foretelling = read_policy(policy), read_foretelling(forecast)

    from auctune.cli.spot.tables import show_advice
    from auctune.sim.spot.advice import advise as ask

    given = read_given(job, market, [] if prices is None else [prices], fixed_price)
    seen = _seen(given.markets[0], now)
    begun = seen.num_slots - 1 if start is None else start
    with Bars() as bars:
        advance = bars.counter("futures", futures)
        try:
            advice = ask(
                given.job, rented, foretelling, seen, begun,
                num_futures=futures, seed=seed, advance=advance,
            )  # fmt: skip
        except InputError as error:
            if error.place in ("start", "forecast", "market"):
                raise InputError(f"--{error.place}", error.found, error.expected) from None
            raise
    show_advice(rented.name, given.job, seen, advice, given.file.market, as_json=as_json)


def _seen(market: "SpotMarket", now: int | None) -> "SpotMarket":
    """The market up to the present slot."""
    last = market.num_slots - 1
    present = last if now is None else now
    if not 0 <= present <= last:
        raise InputError("--now", f"{present}", f"a slot of the market, 0 to {last}")
    return market.until(present)
