"""`auctune spot simulate`: one policy's allocations, slot by slot, and what they come to."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from auctune.cli._support.outputs import check_output_paths, write_files
from auctune.cli._support.progress import warn_compiling
from auctune.cli.spot.inputs import (
    random_starts,
    read_foretelling,
    read_given,
    read_policy,
    trials_of,
)
from auctune.cli.spot.options import (
    Cache,
    Charts,
    FixedPrice,
    Forecast,
    Job,
    Market,
    OnePrice,
    Out,
    Past,
    Policy,
    Seed,
)
from auctune.domain.errors import InputError

if TYPE_CHECKING:
    from auctune.charts.theme import AnyChart
    from auctune.sim.spot.diary import DiaryLine
    from auctune.sim.spot.trials import Trials
    from auctune.spot import Policy as SpotPolicy
    from auctune.spot import SpotJob, SpotOutcome


def simulate(
    market: Market,
    job: Job,
    policy: Policy = "robust:risk=0.05",
    forecast: Forecast = "seasonal",
    start: Annotated[
        int | None, typer.Option(help="Slot of the market in which the job begins; none: 0.")
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(help="Begin it so often, each time at a random slot; none: once, at --start."),
    ] = None,
    past: Past = 0,
    seed: Seed = 0,
    prices: OnePrice = None,
    fixed_price: FixedPrice = None,
    cache: Cache = None,
    out: Out = None,
    charts: Charts = None,
) -> None:
    """Run a job by one policy, without training.

    Shows what was held, done and paid in each slot; with --jobs, a line for each beginning.
    """
    check_output_paths([market, job, prices], (out, charts))
    rented, foretelling = read_policy(policy), read_foretelling(forecast)
    if jobs is not None and start is not None:
        raise InputError("--start", "is given with --jobs", "one of the two")

    from auctune.cli.spot.tables import show_diary, show_trials
    from auctune.sim.spot.benchmark import Start
    from auctune.sim.spot.diary import write_diaries

    given = read_given(job, market, [] if prices is None else [prices], fixed_price)
    starts: tuple[Start, ...] = (Start(0, start or 0),)
    if jobs is not None:
        starts = random_starts(given, jobs, past, seed)
    warn_compiling("fill_window", "the spot market's")
    trials = trials_of(given, starts, [rented], foretelling, seed=seed, cache=cache)
    outcomes, diaries, optima = _play(rented, trials)
    places = [(one.market, one.slot) for one in starts]
    write_files(
        {out: lambda opened: write_diaries(places, diaries, opened.buffer)},
        charts,
        {"spot-diary": lambda: _draw(diaries[0], given.job)},
    )
    if jobs is None:
        show_diary(rented.name, given.job, diaries[0], outcomes[0], optima[0], given.file.market)
    else:
        show_trials(rented.name, given.job, starts, outcomes, optima)


def _play(
    policy: "SpotPolicy", trials: "Trials"
) -> "tuple[list[SpotOutcome], list[list[DiaryLine]], list[float]]":
    """Outcome, diary and optimum of each trial."""
    from auctune.sim.spot.diary import diary
    from auctune.sim.spot.rivalry import optimum_of
    from auctune.spot import play

    # Before what may take long: it is the larger program, and refused where it has no room.
    optima = optimum_of(trials).tolist()
    pairs = zip(trials.markets, trials.forecasts, strict=True)
    outcomes = [play(policy, trials.job, market, forecasts) for market, forecasts in pairs]
    diaries = [
        diary(trials.job, market, outcome)
        for market, outcome in zip(trials.markets, outcomes, strict=True)
    ]
    return outcomes, diaries, optima


def _draw(lines: "list[DiaryLine]", job: "SpotJob") -> "AnyChart":
    from auctune.charts.spot_diary import DiaryPoint, spot_diary_chart

    return spot_diary_chart([DiaryPoint(**asdict(line)) for line in lines], job.deadline)
