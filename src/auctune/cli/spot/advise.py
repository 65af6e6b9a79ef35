"""`auctune spot advise`: for one job, what to hold now and what is likely to come of it."""

from typing import Annotated

import typer

from auctune.cli.progress import Bars
from auctune.cli.spot.inputs import (
    check_count,
    read_foretelling,
    read_markets,
    read_policy,
    recipes,
)
from auctune.cli.spot.options import FixedPrice, Forecast, Job, Market, OnePrice, Policy, Seed
from auctune.domain.errors import InputError


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
    """Say what one job should hold now, its likely cost and finish, and the risk of being late.

    The market's past, up to the present slot, is all that is used: nothing after it is read.
    """
    check_count("--futures", futures)
    rented, foretelling = read_policy(policy), read_foretelling(forecast)
    given = [] if prices is None else [prices]

    from auctune.cli.spot.tables import show_advice
    from auctune.sim.spot.advice import advise as ask
    from auctune.sim.spot.job_file import read_job_file

    file = read_job_file(job)
    wanted = file.spot_job()
    (slots,) = read_markets(recipes(file, market, given, fixed_price))
    present = slots.num_slots - 1 if now is None else now
    if not 0 <= present < slots.num_slots:
        raise InputError("--now", f"{present}", f"a slot of the market, 0 to {slots.num_slots - 1}")
    seen = slots.until(present)
    with Bars() as bars:
        advance = bars.counter("futures", futures)
        try:
            advice = ask(
                wanted,
                rented,
                foretelling,
                seen,
                present if start is None else start,
                num_futures=futures,
                seed=seed,
                advance=advance,
            )
        except InputError as error:
            if error.place in ("start", "forecast"):
                raise InputError(f"--{error.place}", error.found, error.expected) from None
            raise
    show_advice(rented.name, wanted, seen, advice, file.market, as_json=as_json)
