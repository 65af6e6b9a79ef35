"""`auctune spot select`: learning online which policy of a pool to follow."""

from typing import TYPE_CHECKING, Annotated

import typer

from auctune.cli._support.outputs import check_output_paths, write_files
from auctune.cli._support.progress import ProgressBars, warn_compiling
from auctune.cli.spot.inputs import (
    DEFAULT_POOL,
    random_starts,
    read_foretelling,
    read_given,
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
    Prices,
    Seed,
)
from auctune.domain.checks import check_count
from auctune.domain.errors import InputError

if TYPE_CHECKING:
    from auctune.charts.theme import AnyChart
    from auctune.sim.spot.learners import LearnerName
    from auctune.sim.spot.selection import Choice, Selection
    from auctune.spot.arrays import Floats

# That a chart of weights can tell apart.
_MOST_LINES = 5


def select(
    market: Market,
    job: Job,
    pool: Annotated[
        str, typer.Option(metavar="POOL.toml", help="A pool of policies, or default: 112.")
    ] = DEFAULT_POOL,
    learner: Annotated[
        str,
        typer.Option(
            help="How to weigh: adaptive, known, anytime; share or window where markets drift."
        ),
    ] = "adaptive",
    choice: Annotated[
        str, typer.Option(help="How a job is run: draw, heaviest, or mean (for analysis).")
    ] = "draw",
    changes: Annotated[
        int,
        typer.Option(help="Measure regret against the best sequence with so many changes."),
    ] = 0,
    window: Annotated[int, typer.Option(help="Jobs that --learner window remembers.")] = 100,
    forecast: Forecast = "seasonal",
    jobs: Jobs = 500,
    in_order: Annotated[
        bool, typer.Option("--in-order", help="Jobs come in the order of their starts.")
    ] = False,
    past: Past = 96,
    seed: Seed = 0,
    prices: Prices = None,
    fixed_price: FixedPrice = None,
    cache: Cache = None,
    out: Out = None,
    charts: Charts = None,
) -> None:
    """Learn online which policy of a pool to follow.

    Shows the utility reached beside the best fixed policy's, and the regret of the weighted mean
    beside its bound.
    """
    check_output_paths([market, job, *(prices or ())], (out, charts))
    name, way = _checked(learner, choice, changes, window, jobs)
    policies, foretelling = read_pool(pool), read_foretelling(forecast)

    from auctune.cli.spot.tables import show_selection
    from auctune.sim.spot.learners import make_learner
    from auctune.sim.spot.selection import scale_of
    from auctune.sim.spot.selection import select as go_through
    from auctune.sim.spot.selection_file import write_selection
    from auctune.spot import play_batch

    teacher = make_learner(name, jobs, changes, window)
    given = read_given(job, market, prices or (), fixed_price)
    starts = random_starts(given, jobs, past, seed)
    if in_order:
        starts = tuple(sorted(starts, key=lambda start: (start.slot, start.market)))
    warn_compiling("play_pool", "the spot market's")
    with ProgressBars() as bars:
        advance = bars.counter("forecasts", jobs)
        trials = trials_of(
            given, starts, policies, foretelling, seed=seed, cache=cache, advance=advance
        )
        bars.stage("policies")
        utility = play_batch(policies, trials.jobs, trials.markets, trials.forecasts).utility
    found = go_through(utility, scale_of(trials), teacher, way, num_changes=changes, seed=seed)
    names = [one.name for one in policies]
    write_files(
        {out: lambda opened: write_selection(found, utility, names, trials, opened.buffer)},
        charts,
        {
            "spot-weights": lambda: _draw_weights(found, utility, names),
            "spot-regret": lambda: _draw_regret(found),
        },
    )
    show_selection(found, utility, names, changes)


def _draw_weights(found: "Selection", utility: "Floats", names: list[str]) -> "AnyChart":
    from auctune.charts.spot_weights import spot_weights_chart
    from auctune.sim.spot.selection import heaviest_ever, name_of, weight_of

    groups = heaviest_ever(found, utility, _MOST_LINES)
    return spot_weights_chart(
        {name_of(group, names): weight_of(found, group).tolist() for group in groups}
    )


def _draw_regret(found: "Selection") -> "AnyChart":
    from auctune.charts.spot_regret import spot_regret_chart

    return spot_regret_chart(found.regret.tolist(), found.bound.tolist())


def _checked(
    learner: str, choice: str, changes: int, window: int, jobs: int
) -> "tuple[LearnerName, Choice]":
    from auctune.sim.spot.learners import LEARNERS
    from auctune.sim.spot.selection import CHOICES

    check_count(jobs, "--jobs", 1)
    check_count(changes, "--changes", 0)
    check_count(window, "--window", 1)
    if learner not in LEARNERS:
        raise InputError("--learner", f"{learner!r}", f"one of {', '.join(LEARNERS)}")
    if choice not in CHOICES:
        raise InputError("--choice", f"{choice!r}", f"one of {', '.join(CHOICES)}")
    if changes >= jobs:
        raise InputError("--changes", f"{changes}", f"fewer than the {jobs} jobs")
    return learner, choice
