"""`auctune spot advise`: for one job, what to hold now and what is likely to come of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from auctune.cli._support.progress import ProgressBars, warn_compiling
from auctune.cli.spot.inputs import (
    read_foretelling,
    read_given,
    read_policy,
)
from auctune.cli.spot.options import FORECASTERS, POLICIES, FixedPrice, OnePrice
from auctune.domain.checks import check_count
from auctune.domain.errors import InputError

if TYPE_CHECKING:
    from auctune.sim.spot.advice import Advice
    from auctune.sim.spot.foretelling import Foretelling
    from auctune.sim.spot.job_file import JobFile
    from auctune.spot import PastSlot, SpotJob, SpotMarket
    from auctune.spot import Policy as SpotPolicy

_POLICY, _FORECAST = "robust:risk=0.05", "seasonal"


def advise(
    market: Annotated[
        Path | None, typer.Option(help="The market: CSV with t_s, available and price.")
    ] = None,
    job: Annotated[Path | None, typer.Option(help="The job: JOB.toml.")] = None,
    run: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="A run of `auctune spot run`, in place of the rest."),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[:KEY=VALUE...]", help=f"How to rent: {POLICIES}; none: {_POLICY}."
        ),
    ] = None,
    forecast: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[:KEY=VALUE...]",
            help=f"How to forecast: {FORECASTERS}; none: {_FORECAST}.",
        ),
    ] = None,
    start: Annotated[
        int | None,
        typer.Option(help="Slot of the market in which the job began; none: it begins now."),
    ] = None,
    now: Annotated[
        int | None, typer.Option(help="The present slot of the market; none: its last one.")
    ] = None,
    futures: Annotated[
        int | None, typer.Option(help="Look at so many possible futures at most; none: all.")
    ] = None,
    prices: OnePrice = None,
    fixed_price: FixedPrice = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Say what a job should hold now, and what is likely.

    Its expected cost, its finish (p50, p90), and the risk of being late.

    The market's past, up to the present slot, is all that is used: nothing after it is read. Of a
    run (--run) what it did and paid so far is taken from its journal, as of the beginning of the
    slot that it is in; it may go on meanwhile.
    """
    if futures is not None:
        check_count(futures, "--futures", 1)
    if run is not None:
        given = {
            "--market": market, "--job": job, "--policy": policy, "--forecast": forecast,
            "--start": start, "--now": now, "--prices": prices, "--fixed-price": fixed_price,
        }  # fmt: skip
        case = _case_of_run(run, given)
    else:
        case = _case(market, job, policy, forecast, start, now, prices, fixed_price)

    from auctune.cli.spot.tables import show_advice

    spot_job = case.file.spot_job()
    advice = _ask(case, spot_job, futures)
    show_advice(case.policy.name, spot_job, case.seen, advice, case.file.market, as_json=as_json)


@dataclass(frozen=True, slots=True)
class _Case:
    """What advice is asked about; as `auctune.sim.spot.advice.advise` takes it."""

    file: "JobFile"
    policy: "SpotPolicy"
    foretelling: "Foretelling"
    seen: "SpotMarket"
    start: int
    past: "tuple[PastSlot, ...]"


def _ask(case: _Case, job: "SpotJob", futures: int | None) -> "Advice":
    """The advice, under a bar; errors name options."""
    from auctune.sim.spot.advice import advise as ask
    from auctune.spot import Robust

    if isinstance(case.policy, Robust):
        warn_compiling("choose_within", "the spot market's")
    with ProgressBars() as bars:
        advance = bars.counter("futures")
        try:
            return ask(
                job, case.policy, case.foretelling, case.seen, case.start,
                past=case.past, most_futures=futures, advance=advance,
            )  # fmt: skip
        except InputError as error:
            if error.place in ("start", "forecast", "market"):
                raise InputError(f"--{error.place}", error.found, error.expected) from None
            raise


def _case(
    market: Path | None,
    job: Path | None,
    policy: str | None,
    forecast: str | None,
    start: int | None,
    now: int | None,
    prices: Path | None,
    fixed_price: float | None,
) -> _Case:
    if market is None or job is None:
        missing, what = ("--market", "market") if market is None else ("--job", "job")
        raise InputError(missing, "is missing", f"the {what}'s file, or --run DIR")
    rented, foretelling = read_policy(policy or _POLICY), read_foretelling(forecast or _FORECAST)
    given = read_given(job, market, [] if prices is None else [prices], fixed_price)
    seen = _seen(given.markets[0], now)
    begun = seen.num_slots - 1 if start is None else start
    return _Case(given.file, rented, foretelling, seen, begun, ())


def _case_of_run(folder: Path, given: Mapping[str, object]) -> _Case:
    for option, value in given.items():
        if value is not None:
            raise InputError(option, "is given with --run", "one of the two")

    from auctune.run.spot.so_far import read_so_far

    so_far = read_so_far(folder)
    policy, foretelling = read_policy(so_far.policy), read_foretelling(so_far.forecast)
    return _Case(so_far.file, policy, foretelling, so_far.seen, so_far.start, so_far.past)


def _seen(market: "SpotMarket", now: int | None) -> "SpotMarket":
    """The market up to the present slot."""
    last = market.num_slots - 1
    present = last if now is None else now
    if not 0 <= present <= last:
        raise InputError("--now", f"{present}", f"a slot of the market, 0 to {last}")
    return market.until(present)
