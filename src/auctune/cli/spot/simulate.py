"""`auctune spot simulate` and `compare`: policies on recorded markets, without training."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated

import typer

from auctune.cli._support.options import LABEL, option_groups, refuse_combined
from auctune.cli._support.outputs import check_output_paths, write_files
from auctune.cli._support.progress import ProgressBars, warn_compiling
from auctune.cli.spot.inputs import (
    POLICIES,
    Jobs,
    OnePrice,
    Past,
    Policy,
    Prices,
    TrialOptions,
    Vary,
    make_trials,
    random_jobs,
    random_starts,
    read_forecaster,
    read_inputs,
    read_policies,
    read_pool,
)
from auctune.cli.spot.tables import print_comparison, print_schedule, print_trials
from auctune.registry.policies import SPOT_POLICIES
from auctune.sim.spot.files import SlotLine, slot_lines, write_slot_lines
from auctune.sim.spot.trials import (
    PolicyScore,
    Start,
    Trials,
    optimum_of,
    play_all,
    write_comparison,
)
from auctune.spot import Policy as SpotPolicy
from auctune.spot import SpotJob, SpotOutcome, play
from auctune.spot.batch.kernel import play_pool
from auctune.spot.window.program import fill_window

if TYPE_CHECKING:
    from auctune.charts.theme import AnyChart


@option_groups
def simulate(
    options: TrialOptions,
    policy: Policy = "robust",
    start: Annotated[
        int | None, typer.Option(help="Slot of the market in which the job starts. Default: 0.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(help="Number of random starts, instead of --start.")
    ] = None,
    past: Past = 0,
    prices: OnePrice = None,
) -> None:
    """Simulate a job under one policy.

    Shows the allocation, progress and cost of each slot, or with --jobs a line per start.
    """
    check_output_paths([options.market, options.job, prices], (options.out, options.charts))
    (chosen,), forecaster = read_policies([policy]), read_forecaster(options.forecast)
    if jobs is not None:
        refuse_combined("--jobs", {"--start": start is not None}, "one of the two")
    price_files = [] if prices is None else [prices]
    inputs = read_inputs(options.job, options.market, price_files, options.fixed_price)
    starts: tuple[Start, ...] = (Start(0, start or 0),)
    if jobs is not None:
        starts = random_starts(inputs, jobs, past, options.seed)
    warn_compiling(fill_window, "the spot market's")
    trials = make_trials(inputs, starts, [chosen], forecaster, options)
    outcomes, schedules, optima = _play(chosen, trials)
    places = [(one.market, one.slot) for one in starts]
    write_files(
        {options.out: lambda opened: write_slot_lines(places, schedules, opened.buffer)},
        options.charts,
        {"spot-diary": lambda: _draw_schedule(schedules[0], inputs.job)},
    )
    if jobs is None:
        market = inputs.file.market
        print_schedule(chosen.name, inputs.job, schedules[0], outcomes[0], optima[0], market)
    else:
        print_trials(chosen.name, inputs.job, starts, outcomes, optima)


@option_groups
def compare(
    options: TrialOptions,
    policy: Annotated[
        list[str] | None,
        typer.Option(metavar=LABEL, help=f"{POLICIES}; repeatable. Default: one of each."),
    ] = None,
    pool: Annotated[
        str | None,
        typer.Option(metavar="POOL.toml", help="A pool of policies, or default, of 112 policies."),
    ] = None,
    jobs: Jobs = 200,
    vary: Vary = None,
    past: Past = 96,
    prices: Prices = None,
) -> None:
    """Compare policies on many starts of a job.

    Shows mean utility and cost, the share on time, and the share of the offline optimum, each with
    its 95% confidence interval. Of a pool, shows the best, the median and the worst policy.
    """
    read = [options.market, options.job, *(prices or ())]
    check_output_paths(read, (options.out, options.charts))
    named = read_policies(policy or SPOT_POLICIES.names())
    pooled = () if pool is None else read_pool(pool)
    forecaster = read_forecaster(options.forecast)
    inputs = read_inputs(options.job, options.market, prices or (), options.fixed_price)
    varied = random_jobs(inputs.job, vary, jobs, options.seed)
    starts = random_starts(inputs, jobs, past, options.seed)
    policies = [*named, *(one for one in pooled if one not in named)]
    warn_compiling(play_pool, "the spot market's")
    with ProgressBars() as bars:
        advance = bars.counter("forecasts", jobs)
        trials = make_trials(inputs, starts, policies, forecaster, options, advance)
        trials = replace(trials, varied=varied)
        bars.stage("policies")
        comparison = play_all(trials, policies)
    shown = [(one.name, index) for index, one in enumerate(named)]
    shown += _extremes(comparison.ranked(), policies, pooled)
    rows = [(label, comparison.score(index)) for label, index in shown]
    write_files(
        {options.out: lambda opened: write_comparison(comparison, opened.buffer)},
        options.charts,
        {"spot-policies": lambda: _draw_policies(rows, float(comparison.optimum.mean()))},
    )
    print_comparison(rows, comparison.optimum, trials)


def _play(
    policy: SpotPolicy, trials: Trials
) -> tuple[list[SpotOutcome], list[list[SlotLine]], list[float]]:
    """Return outcome, schedule and optimum of each trial."""
    # The optimum first: it is the larger program, and is refused if it exceeds memory.
    optima = optimum_of(trials).tolist()
    pairs = zip(trials.markets, trials.forecasts, strict=True)
    outcomes = [play(policy, trials.job, market, forecasts) for market, forecasts in pairs]
    schedules = [
        slot_lines(trials.job, market, outcome)
        for market, outcome in zip(trials.markets, outcomes, strict=True)
    ]
    return outcomes, schedules, optima


def _extremes(
    ranked: Sequence[int], policies: Sequence[SpotPolicy], pool: Sequence[SpotPolicy]
) -> list[tuple[str, int]]:
    """Label the best, median and worst policies of a pool, by mean utility."""
    if not pool:
        return []
    members = [index for index in ranked if policies[index] in pool]
    places = {"best": 0, "median": len(members) // 2, "worst": -1}
    return [
        (f"{word} of {len(members)}: {policies[members[place]].name}", members[place])
        for word, place in places.items()
    ]


def _draw_schedule(lines: Sequence[SlotLine], job: SpotJob) -> "AnyChart":
    from auctune.charts.spot import SlotPoint, spot_job_chart

    return spot_job_chart([SlotPoint(**asdict(line)) for line in lines], job.deadline)


def _draw_policies(rows: Sequence[tuple[str, PolicyScore]], optimum: float) -> "AnyChart":
    from auctune.charts.spot import PolicyPoint, policy_comparison_chart

    policies = [
        PolicyPoint(label, one.utility.value, one.utility.low, one.utility.high, one.on_time.value)
        for label, one in rows
    ]
    return policy_comparison_chart(policies, optimum)
