"""`auctune spot select`: learn online which policy of a pool to follow."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from auctune.cli._support.options import option_groups
from auctune.cli._support.outputs import check_output_paths, write_files
from auctune.cli._support.progress import ProgressBars, warn_compiling
from auctune.cli.spot.inputs import (
    DEFAULT_POOL,
    Jobs,
    Past,
    Prices,
    TrialOptions,
    Vary,
    make_trials,
    random_jobs,
    random_starts,
    read_forecaster,
    read_inputs,
    read_pool,
)
from auctune.cli.spot.tables import print_selection
from auctune.domain.checks import check_count
from auctune.domain.errors import InputError
from auctune.numerics.arrays import Floats
from auctune.sim.spot.files import write_selection
from auctune.sim.spot.selection import (
    CHOICES,
    LEARNERS,
    Choice,
    LearnerName,
    Selection,
    heaviest_ever,
    make_learner,
    name_of,
    scale_of,
    weight_of,
)
from auctune.sim.spot.selection import select as run_selection
from auctune.spot import play_batch
from auctune.spot.batch.kernel import play_pool

if TYPE_CHECKING:
    from auctune.charts.theme import AnyChart

# More lines cannot be distinguished in a chart.
_MAX_LINES = 5
_CHART_HEIGHT = 220


@option_groups
def select(
    options: TrialOptions,
    pool: Annotated[
        str,
        typer.Option(metavar="POOL.toml", help="A pool of policies, or default, of 112 policies."),
    ] = DEFAULT_POOL,
    learner: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="The learner: adaptive, known or anytime; for drifting markets share or window.",
        ),
    ] = "adaptive",
    choice: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Policy of a job: draw (by weight), heaviest or mean (weighted)."
        ),
    ] = "draw",
    changes: Annotated[
        int,
        typer.Option(help="Changes of policy in the benchmark of the regret."),
    ] = 0,
    window: Annotated[
        int, typer.Option(help="Number of latest jobs that --learner window uses.")
    ] = 100,
    jobs: Jobs = 500,
    vary: Vary = None,
    in_order: Annotated[
        bool, typer.Option("--in-order", help="Run jobs in order of their starts.")
    ] = False,
    past: Past = 96,
    prices: Prices = None,
) -> None:
    """Learn online which policy of a pool to follow.

    Shows the mean utility and that of the best fixed policy, and the regret of the weighted mean
    and its bound.
    """
    read = [options.market, options.job, *(prices or ())]
    check_output_paths(read, (options.out, options.charts))
    name, how = _checked(learner, choice, changes, window, jobs)
    policies, forecaster = read_pool(pool), read_forecaster(options.forecast)
    algorithm = make_learner(name, jobs, changes, window)
    inputs = read_inputs(options.job, options.market, prices or (), options.fixed_price)
    varied = random_jobs(inputs.job, vary, jobs, options.seed)
    starts = random_starts(inputs, jobs, past, options.seed)
    if in_order:
        starts = tuple(sorted(starts, key=lambda start: (start.slot, start.market)))
    warn_compiling(play_pool, "the spot market's")
    with ProgressBars() as bars:
        advance = bars.counter("forecasts", jobs)
        trials = make_trials(inputs, starts, policies, forecaster, options, advance)
        trials = replace(trials, varied=varied)
        bars.stage("policies")
        utility = play_batch(policies, trials.jobs, trials.markets, trials.forecasts).utility
    scale = scale_of(trials)
    selection = run_selection(
        utility, scale, algorithm, how, num_changes=changes, seed=options.seed
    )
    names = [one.name for one in policies]
    write_files(
        {
            options.out: lambda opened: write_selection(
                selection, utility, names, trials, opened.buffer
            )
        },
        options.charts,
        {
            "spot-weights": lambda: _draw_weights(selection, utility, names),
            "spot-regret": lambda: _draw_regret(selection),
        },
    )
    print_selection(selection, utility, names, changes)


def _draw_weights(selection: Selection, utility: Floats, names: Sequence[str]) -> "AnyChart":
    from auctune.charts.curves import Curve, CurvePanel, curves_chart

    curves = []
    for group in heaviest_ever(selection, utility, _MAX_LINES):
        weight = weight_of(selection, group).tolist()
        curves.append(Curve(name_of(group, names), range(len(weight)), weight))
    panel = CurvePanel("", "weight", curves, from_zero=True)
    return curves_chart([panel], x_title="jobs before", height=_CHART_HEIGHT)


def _draw_regret(selection: Selection) -> "AnyChart":
    from auctune.charts.curves import Curve, CurvePanel, curves_chart

    regret, bound = selection.regret.tolist(), selection.bound.tolist()
    curves = [Curve("regret of the weighted mean", range(1, len(regret) + 1), regret)]
    # No bound is stated for some learners and rounds.
    stated = [job for job, value in enumerate(bound) if math.isfinite(value)]
    if stated:
        curves.append(Curve("bound", [job + 1 for job in stated], [bound[job] for job in stated]))
    panel = CurvePanel("", "scaled utility", curves, from_zero=True)
    return curves_chart([panel], x_title="jobs", height=_CHART_HEIGHT)


def _checked(
    learner: str, choice: str, changes: int, window: int, jobs: int
) -> tuple[LearnerName, Choice]:
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
