"""Tables and texts of `auctune spot`."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import typer

from auctune.cli._support.tables import interval_text, make_table, print_table
from auctune.numerics.arrays import Floats
from auctune.sim.spot.advice import Advice
from auctune.sim.spot.files import SlotLine
from auctune.sim.spot.job_file import MarketEntry
from auctune.sim.spot.selection import Selection, heaviest_ever, name_of, share_of_best, weight_of
from auctune.sim.spot.trials import PolicyScore, Start, Trials
from auctune.spot import SpotJob, SpotMarket, SpotOutcome

_SLACK = 1e-9
_MAX_POLICIES = 5


def print_schedule(
    name: str,
    job: SpotJob,
    lines: Sequence[SlotLine],
    outcome: SpotOutcome,
    optimum: float,
    money: MarketEntry,
) -> None:
    """Print a job's slots, then its totals."""
    numbers = ("slot", "price", "available", "on-demand", "spot", "progress", "even pace", "cost")
    table = make_table(*numbers, right=numbers)
    for line in lines:
        table.add_row(
            str(line.slot),
            f"{line.price:.3f}",
            str(line.available),
            str(line.on_demand),
            str(line.spot),
            f"{line.progress:.2f}",
            f"{line.expected:.2f}",
            f"{line.cost:.3f}",
        )
    print_table(table)
    when = "on time" if outcome.finish <= job.deadline + _SLACK else "late"
    typer.echo(f"{name}: done after {outcome.finish:.2f} of {job.deadline} slots, {when}")
    if outcome.ending_cost > 0:
        typer.echo(f"after the deadline, {job.n_max} on-demand: {outcome.ending_cost:.3f}")
    typer.echo(f"cost {outcome.cost:.3f}{in_money(outcome.cost, money)}")
    ratio = _ratio_text(outcome.utility, optimum)
    typer.echo(f"value {outcome.value:.3f}, utility {outcome.utility:.3f}; {ratio}")


def print_trials(
    name: str,
    job: SpotJob,
    starts: Sequence[Start],
    outcomes: Sequence[SpotOutcome],
    optima: Sequence[float],
) -> None:
    """Print a job's outcome at each start, then the means."""
    numbers = ("start", "finish", "cost", "value", "utility", "optimum")
    table = make_table(*numbers, "", right=numbers)
    for start, outcome, optimum in zip(starts, outcomes, optima, strict=True):
        table.add_row(
            str(start.slot),
            f"{outcome.finish:.2f}",
            f"{outcome.cost:.3f}",
            f"{outcome.value:.3f}",
            f"{outcome.utility:.3f}",
            f"{optimum:.3f}",
            "" if outcome.finish <= job.deadline + _SLACK else "late",
        )
    print_table(table)
    num = len(outcomes)
    on_time = sum(outcome.finish <= job.deadline + _SLACK for outcome in outcomes)
    utility = sum(outcome.utility for outcome in outcomes) / num
    cost = sum(outcome.cost for outcome in outcomes) / num
    typer.echo(f"{name}: {on_time} of {num} on time; mean cost {cost:.3f}")
    typer.echo(f"mean utility {utility:.3f}; {_ratio_text(utility, sum(optima) / num)}")


def print_comparison(
    rows: Sequence[tuple[str, PolicyScore]], optimum: Floats, trials: Trials
) -> None:
    """Print a line per policy, then the optimum."""
    numbers = ("utility", "cost", "on time", "of optimum")
    table = make_table("policy", *numbers, right=numbers)
    for label, one in rows:
        table.add_row(
            label,
            interval_text(one.utility, ".2f"),
            interval_text(one.cost, ".2f"),
            interval_text(one.on_time, ".1%"),
            "-" if one.of_optimum is None else interval_text(one.of_optimum, ".1%"),
        )
    table.add_row("optimum", f"{optimum.mean():.2f}", "", "", "")
    print_table(table)
    typer.echo(f"{trials.num_trials} jobs; means ± 95% intervals, in on-demand GPU-slots")


def print_selection(
    selection: Selection, utility: Floats, names: Sequence[str], num_changes: int
) -> None:
    """Print the policies with the most weight, the mean utility, and the best in hindsight."""
    numbers = ("last weight", "mean weight", "mean utility")
    table = make_table("policy", *numbers, right=numbers)
    for group in heaviest_ever(selection, utility, _MAX_POLICIES):
        weight = weight_of(selection, group)
        table.add_row(
            name_of(group, names),
            f"{weight[-1]:.3f}",
            f"{weight.mean():.3f}",
            f"{utility[:, group.first].mean():.3f}",
        )
    print_table(table)
    reached = float(selection.money.mean())
    typer.echo(f"mean utility {reached:.3f} over {len(utility)} jobs, {len(names)} policies")
    fixed = int(utility.mean(axis=0).argmax())
    typer.echo(f"best fixed: {names[fixed]}, {utility[:, fixed].mean():.3f}")
    share = share_of_best(selection, utility)
    best = "the best fixed" if not num_changes else f"the best with {num_changes} changes"
    if share is not None:
        typer.echo(f"{share:.1%} of {best}")
    bound = float(selection.bound[-1])
    limit = f", bound {bound:.3f}" if bound == bound else ""
    typer.echo(f"regret of the weighted mean to {best}: {selection.regret[-1]:.3f}{limit} (scaled)")


def print_advice(
    name: str,
    job: SpotJob,
    seen: SpotMarket,
    advice: Advice,
    money: MarketEntry,
) -> None:
    """Print the advice for the present slot, then the expected cost and finish."""
    price, available = float(seen.price[-1]), int(seen.available[-1])
    typer.echo(f"slot {advice.slot} of {job.deadline}: {available} spot at {price:.3f}; {name}")
    if advice.is_done:
        typer.echo("the work is done; hold no instances")
        return
    share = advice.progress / job.workload
    typer.echo(f"{share:.1%} done, spent {advice.spent:.3f}{in_money(advice.spent, money)}")
    typer.echo(f"hold now: {advice.now.on_demand} on-demand, {advice.now.spot} spot")
    typer.echo(
        f"cost {advice.cost:.3f}{in_money(advice.cost, money)} expected; "
        f"p50 {advice.cost_p50:.3f}, p90 {advice.cost_p90:.3f}"
    )
    typer.echo(f"finish p50 {advice.finish_p50:.2f}, p90 {advice.finish_p90:.2f} slots")
    typer.echo(
        f"risk of missing the deadline {advice.risk:.1%}; expected utility {advice.utility:.3f}"
    )
    typer.echo(
        f"estimated from {advice.num_futures} scenarios: continuations of similar past slots"
    )


def advice_record(name: str, advice: Advice) -> dict[str, Any]:
    """Return advice as JSON values."""
    return {"policy": name} | asdict(advice)


def in_money(cost: float, money: MarketEntry) -> str:
    """Format a cost in the market's currency, unless the on-demand price is 1."""
    if money.on_demand_price == 1:
        return ""
    return f" ({cost * money.on_demand_price * money.slot_seconds / 3600:,.2f} in money)"


def _ratio_text(utility: float, optimum: float) -> str:
    share = f", {utility / optimum:.1%} of it" if optimum > 0 else ""
    return f"optimum {optimum:.3f}{share}"
