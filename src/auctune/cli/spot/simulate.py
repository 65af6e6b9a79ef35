"""`auctune spot simulate`: one policy's allocations, slot by slot, and what they come to."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from auctune.cli.spot.inputs import (
    check_count,
    read_foretelling,
    read_markets,
    read_policy,
    recipes,
)
from auctune.cli.spot.options import (
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
from auctune.cli.spot.outputs import check_outputs, write_outputs
from auctune.domain.errors import InputError

if TYPE_CHECKING:
    from auctune.charts.theme import AnyChart


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
    out: Out = None,
    charts: Charts = None,
) -> None:
    """Run a job by one policy on a market, without training.

    Shows what was held, done and paid in each slot; with --jobs, a line for each beginning.
    """
    check_outputs([market, job, prices], out, charts)
    rented, foretelling = read_policy(policy), read_foretelling(forecast)
    if jobs is not None:
        check_count("--jobs", jobs)
        if start is not None:
            raise InputError("--start", "is given with --jobs", "one of the two")
    check_count("--past", past, 0)

    from auctune.cli.spot.tables import show_diary, show_trials
    from auctune.sim.spot.benchmark import Start, draw_starts
    from auctune.sim.spot.diary import diary, write_diaries
    from auctune.sim.spot.job_file import read_job_file
    from auctune.sim.spot.trials import make_trials
    from auctune.spot import offline_optimum, play

    file = read_job_file(job)
    wanted = file.spot_job()
    given = [] if prices is None else [prices]
    markets = read_markets(recipes(file, market, given, fixed_price))
    starts: tuple[Start, ...] = (Start(0, start or 0),)
    if jobs is not None:
        starts = draw_starts(markets, jobs, wanted.deadline, past=past, seed=seed)
    trials = make_trials(wanted, markets, starts, foretelling, [rented], seed=seed)
    outcomes = [
        play(rented, wanted, slots, forecasts)
        for slots, forecasts in zip(trials.markets, trials.forecasts, strict=True)
    ]
    diaries = [
        diary(wanted, slots, outcome)
        for slots, outcome in zip(trials.markets, outcomes, strict=True)
    ]
    places = [(one.market, one.slot) for one in starts]

    def draw() -> "AnyChart":
        from auctune.charts.spot_diary import DiaryPoint, spot_diary_chart

        points = [DiaryPoint(**asdict(line)) for line in diaries[0]]
        return spot_diary_chart(points, wanted.deadline)

    write_outputs(
        out, lambda opened: write_diaries(places, diaries, opened), charts, {"spot-diary": draw}
    )
    optima = [offline_optimum(wanted, slots).utility for slots in trials.markets]
    if jobs is None:
        show_diary(rented.name, wanted, diaries[0], outcomes[0], optima[0], file.market)
    else:
        show_trials(rented.name, wanted, starts, outcomes, optima)
