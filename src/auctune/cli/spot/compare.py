"""`auctune spot compare`: many policies on one job, begun at many moments."""

from typing import TYPE_CHECKING

from auctune.cli.progress import Bars
from auctune.cli.spot.inputs import (
    check_count,
    read_foretelling,
    read_markets,
    read_policies,
    read_pool,
    recipes,
)
from auctune.cli.spot.options import (
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
from auctune.cli.spot.outputs import check_outputs, write_outputs

if TYPE_CHECKING:
    from auctune.charts.theme import AnyChart
    from auctune.spot import Policy as SpotPolicy


def compare(
    market: Market,
    job: Job,
    policy: Policies = None,
    pool: Pool = None,
    forecast: Forecast = "seasonal",
    jobs: Jobs = 200,
    past: Past = 96,
    seed: Seed = 0,
    prices: Prices = None,
    fixed_price: FixedPrice = None,
    out: Out = None,
    charts: Charts = None,
) -> None:
    """Run a job by many policies, begun at the same random moments for all.

    Shows mean utility and cost, the share on time, and the share of the offline optimum, each with
    its 95% interval. Of a pool the best, the middle and the worst policy are shown.
    """
    check_outputs([market, job, *(prices or ())], out, charts)
    check_count("--jobs", jobs)
    check_count("--past", past, 0)
    named = read_policies(policy)
    pooled = [one for one in (() if pool is None else read_pool(pool)) if one not in named]
    foretelling = read_foretelling(forecast)

    from auctune.cli.spot.tables import show_rivalry
    from auctune.sim.spot.benchmark import draw_starts
    from auctune.sim.spot.job_file import read_job_file
    from auctune.sim.spot.rivalry import play_all, write_rivalry
    from auctune.sim.spot.trials import make_trials

    file = read_job_file(job)
    wanted = file.spot_job()
    markets = read_markets(recipes(file, market, prices or (), fixed_price))
    starts = draw_starts(markets, jobs, wanted.deadline, past=past, seed=seed)
    policies: list[SpotPolicy] = [*named, *pooled]
    with Bars() as bars:
        advance = bars.counter("forecasts", jobs)
        trials = make_trials(
            wanted, markets, starts, foretelling, policies, seed=seed, advance=advance
        )
        bars.stage("policies")
        rivalry = play_all(trials, policies)
    shown = [(rivalry.names[index], index) for index in range(len(named))]
    if pool is not None:
        shown += _of_pool(rivalry.ranked(), policies, read_pool(pool))
    rows = [(label, rivalry.standing(index)) for label, index in shown]

    def draw() -> "AnyChart":
        from auctune.charts.spot_rivals import Rival, spot_rivals_chart

        rivals = [
            Rival(label, one.utility.value, one.utility.low, one.utility.high, one.on_time.value)
            for label, one in rows
        ]
        return spot_rivals_chart(rivals, float(rivalry.optimum.mean()))

    write_outputs(
        out, lambda opened: write_rivalry(rivalry, opened), charts, {"spot-policies": draw}
    )
    show_rivalry(rows, rivalry.optimum, trials)


def _of_pool(
    ranked: list[int], policies: "list[SpotPolicy]", pool: "tuple[SpotPolicy, ...]"
) -> list[tuple[str, int]]:
    """Best, middle and worst of a pool, by mean utility."""
    members = [index for index in ranked if policies[index] in pool]
    places = {"best": 0, "middle": len(members) // 2, "worst": -1}
    return [
        (f"{word} of {len(members)}: {policies[members[place]].name}", members[place])
        for word, place in places.items()
    ]
