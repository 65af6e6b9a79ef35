"""`auctune spot advise`: the instances a job should hold now, its expected cost and finish."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from auctune.cli._support.errors import require_extras
from auctune.cli._support.options import (
    LABEL,
    changed_options,
    option_groups,
    print_json,
    refuse_combined,
)
from auctune.cli._support.progress import ProgressBars, warn_compiling
from auctune.cli.spot.inputs import (
    FORECASTERS,
    JOB_HELP,
    MARKET_HELP,
    POLICIES,
    FixedPrice,
    OnePrice,
    read_forecaster,
    read_inputs,
    read_policies,
)
from auctune.cli.spot.tables import advice_record, print_advice
from auctune.domain.checks import check_count
from auctune.domain.errors import InputError
from auctune.sim.spot.advice import Advice
from auctune.sim.spot.advice import advise as compute_advice
from auctune.sim.spot.forecasts import ForecasterSpec
from auctune.sim.spot.job_file import JobFile
from auctune.spot import PastSlot, Robust, SpotJob, SpotMarket
from auctune.spot import Policy as SpotPolicy
from auctune.spot.window.expectation import choose

_POLICY, _FORECAST = "robust", "chain"


@dataclass(frozen=True, slots=True)
class AdviceOptions:
    """Options of a job, its market and its policy; not with `--run`."""

    market: Annotated[Path | None, typer.Option(metavar="FILE", help=MARKET_HELP)] = None
    job: Annotated[Path | None, typer.Option(metavar="FILE", help=JOB_HELP)] = None
    policy: Annotated[
        str | None,
        typer.Option(metavar=LABEL, help=f"The policy: {POLICIES}. Default: {_POLICY}."),
    ] = None
    forecast: Annotated[
        str | None,
        typer.Option(metavar=LABEL, help=f"The forecaster: {FORECASTERS}. Default: {_FORECAST}."),
    ] = None
    start: Annotated[
        int | None,
        typer.Option(help="Slot of the market in which the job started. Default: the present."),
    ] = None
    now: Annotated[
        int | None, typer.Option(help="The present slot of the market. Default: the last.")
    ] = None
    prices: OnePrice = None
    fixed_price: FixedPrice = None


@option_groups
def advise(
    options: AdviceOptions,
    run: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Advise on this run of spot run, instead of a --job."),
    ] = None,
    futures: Annotated[
        int | None, typer.Option(help="Maximum number of scenarios. Default: all.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Advise on the instances to hold now.

    Shows expected cost, finish (p50, p90) and the risk of missing the deadline. Uses the market up
    to the present slot only. With --run, the state of the job is read from the run's log, as of
    the start of its present slot; the run may continue meanwhile.
    """
    if futures is not None:
        check_count(futures, "--futures", 1)
    case = _case(options) if run is None else _case_of_run(run, options)
    spot_job = case.file.spot_job()
    advice = _compute(case, spot_job, futures)
    if as_json:
        print_json(advice_record(case.policy.name, advice))
    else:
        print_advice(case.policy.name, spot_job, case.seen, advice, case.file.market)


@dataclass(frozen=True, slots=True)
class _AdviceInput:
    """Arguments of `auctune.sim.spot.advice.advise`."""

    file: JobFile
    policy: SpotPolicy
    forecaster: ForecasterSpec
    seen: SpotMarket
    start: int
    past: tuple[PastSlot, ...]


def _compute(case: _AdviceInput, job: SpotJob, futures: int | None) -> Advice:
    if isinstance(case.policy, Robust):
        warn_compiling(choose, "the spot market's")
    with ProgressBars() as bars:
        advance = bars.counter("futures")
        try:
            return compute_advice(
                job, case.policy, case.forecaster, case.seen, case.start,
                past=case.past, most_futures=futures, advance=advance,
            )  # fmt: skip
        except InputError as error:
            if error.place in ("start", "forecast", "market"):
                raise error.at(f"--{error.place}") from None
            raise


def _case(options: AdviceOptions) -> _AdviceInput:
    if options.market is None or options.job is None:
        missing, what = ("--market", "market") if options.market is None else ("--job", "job")
        raise InputError(missing, "is missing", f"the {what}'s file, or --run DIR")
    (policy,) = read_policies([options.policy or _POLICY])
    forecaster = read_forecaster(options.forecast or _FORECAST)
    prices = [] if options.prices is None else [options.prices]
    inputs = read_inputs(options.job, options.market, prices, options.fixed_price)
    seen = _past_of(inputs.markets[0], options.now)
    start = seen.num_slots - 1 if options.start is None else options.start
    return _AdviceInput(inputs.file, policy, forecaster, seen, start, ())


def _case_of_run(folder: Path, options: AdviceOptions) -> _AdviceInput:
    refuse_combined("--run", dict.fromkeys(changed_options(options), True), "one of the two")

    require_extras("auctune spot advise --run", "service", "train")
    from auctune.standalone.spot import SpotRunFolder, read_snapshot

    state = read_snapshot(SpotRunFolder(folder))
    (policy,), forecaster = read_policies([state.policy]), read_forecaster(state.forecast)
    return _AdviceInput(state.file, policy, forecaster, state.history, state.start, state.past)


def _past_of(market: SpotMarket, now: int | None) -> SpotMarket:
    """Return the market up to the present slot."""
    last = market.num_slots - 1
    present = last if now is None else now
    if not 0 <= present <= last:
        raise InputError("--now", f"{present}", f"a slot of the market, 0 to {last}")
    return market.until(present)
