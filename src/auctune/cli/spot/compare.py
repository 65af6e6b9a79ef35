"""`auctune spot compare`: many policies on one job, begun at many moments."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from auctune.cli._support.outputs import check_output_paths, write_files
from auctune.cli._support.progress import ProgressBars, warn_compiling
from auctune.cli.spot.inputs import (
    random_jobs,
    random_starts,
    read_foretelling,
    read_given,
    read_policies,
    read_pool,
    trials_of,
)
from auctune.cli.spot.options import (
    Cache,
    Charts,
    FixedPrice,
    Forecast,
    Job,
    Jobs,
    Market,
    Out,
    Past,
    Policies,
    Pool,
    Prices,
    Seed,
)

if TYPE_CHECKING:
    from auctune.charts.theme import AnyChart
    from auctune.sim.spot.rivalry import Standing
    from auctune.spot import Policy as SpotPolicy


def compare(
    market: Market,
    job: Job,
    policy: Policies = None,
    pool: Pool = None,
    forecast: Forecast = "seasonal",
    jobs: Jobs = 200,
    vary: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUES",
            help="Jobs of random size: workload=60-100, n_min=1,2,4, n_max=8,12,16; repeatable.",
        ),
    ] = None,
    past: Past = 96,
    seed: Seed = 0,
    prices: Prices = None,
    fixed_price: FixedPrice = None,
    cache: Cache = None,
    out: Out = None,
    charts: Charts = None,
) -> None:
    """Compare policies on a job begun at random slots.

    Shows mean utility and cost, the share on time, and the share of the offline optimum, each with
    its 95% interval. Of a pool the best, the middle and the worst policy are shown.
    """
    check_output_paths([market, job, *(prices or ())], (out, charts))
    named = read_policies(policy)
    pooled = () if pool is None else read_pool(pool)
    foretelling = read_foretelling(forecast)

    from auctune.cli.spot.tables import show_rivalry
    from auctune.sim.spot.rivalry import play_all, write_rivalry

    given = read_given(job, market, prices or (), fixed_price)
    varied = random_jobs(given.job, vary, jobs, seed)
    starts = random_starts(given, jobs, past, seed)
    policies = [*named, *(one for one in pooled if one not in named)]
    warn_compiling("play_pool", "the spot market's")
    with ProgressBars() as bars:
        advance = bars.counter("forecasts", jobs)
        trials = trials_of(
            given, starts, policies, foretelling, seed=seed, cache=cache, advance=advance
        )
        trials = replace(trials, varied=varied)
        bars.stage("policies")
        rivalry = play_all(trials, policies)
    shown = [(one.name, index) for index, one in enumerate(named)]
    shown += _of_pool(rivalry.ranked(), policies, pooled)
    rows = [(label, rivalry.standing(index)) for label, index in shown]
    write_files(
        {out: lambda opened: write_rivalry(rivalry, opened.buffer)},
        charts,
        {"spot-policies": lambda: _draw(rows, float(rivalry.optimum.mean()))},
    )
    show_rivalry(rows, rivalry.optimum, trials)


def _draw(rows: "list[tuple[str, Standing]]", optimum: float) -> "AnyChart":
    from auctune.charts.spot_rivals import Rival, spot_rivals_chart

    rivals = [
        Rival(label, one.utility.value, one.utility.low, one.utility.high, one.on_time.value)
        for label, one in rows
    ]
    return spot_rivals_chart(rivals, optimum)


def _of_pool(
    ranked: list[int], policies: "list[SpotPolicy]", pool: "tuple[SpotPolicy, ...]"
) -> list[tuple[str, int]]:
    """Best, middle and worst of a pool, by mean utility; nothing of none."""
    if not pool:
        return []
    members = [index for index in ranked if policies[index] in pool]
    places = {"best": 0, "middle": len(members) // 2, "worst": -1}
    return [
        (f"{word} of {len(members)}: {policies[members[place]].name}", members[place])
        for word, place in places.items()
    ]
