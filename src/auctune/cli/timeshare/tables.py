"""What the commands of `auctune timeshare` show."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from auctune.sim.spot.estimate import Estimate
    from auctune.sim.timeshare.bundle import RecordedBundle
    from auctune.sim.timeshare.contest import Contest
    from auctune.timeshare import BundleOutcome, ClairvoyantOptimum


def show_play(
    name: str, bundle: "RecordedBundle", outcome: "BundleOutcome", optimum: "ClairvoyantOptimum"
) -> None:
    """A line a thread, then the sums."""
    from auctune.cli._support.tables import make_table, print_table

    numbers = ("start", "deadline", "threshold", "loss", "batches", "units", "done after")
    table = make_table("thread", *numbers, "", right=numbers)
    for k, thread in enumerate(bundle.threads):
        seen = [loss for loss in outcome.losses[:, k].tolist() if not math.isnan(loss)]
        done = bool(outcome.done[k])
        table.add_row(
            thread.id,
            str(thread.start),
            str(thread.deadline),
            f"{thread.threshold:.4g}",
            f"{seen[-1]:.4g}" if seen else "",
            f"{outcome.samples[k]:.0f}",
            f"{outcome.shares[:, k].sum():.1f}",
            f"{outcome.finish[k]:.0f}" if done else "",
            "done" if done else "missed",
        )
    print_table(table)
    typer.echo(
        f"{name}: {outcome.num_done} of {len(bundle.threads)} done, "
        f"clairvoyant optimum {optimum.num_done}; {outcome.switches} turns"
    )


def show_contest(labels: Sequence[str], contest: "Contest") -> None:
    """A line an allocator, with intervals where there are several bundles."""
    from auctune.cli._support.tables import make_table, print_table

    numbers = ("done", "of optimum", "turns")
    table = make_table("allocator", *numbers, right=numbers)
    for index, label in enumerate(labels):
        standing = contest.standing(index)
        ratio = standing.of_optimum
        table.add_row(
            label,
            _figure(standing.done, 2),
            "" if ratio is None else _figure(ratio, 3),
            f"{standing.switches.value:.0f}",
        )
    print_table(table)
    num = len(contest.bundles)
    mean = contest.optimum.mean()
    typer.echo(f"{num} bundle{'s' * (num > 1)}; clairvoyant optimum {mean:.2f}")


def _figure(estimate: "Estimate", digits: int) -> str:
    if estimate.half_width is None:
        return f"{estimate.value:.{digits}f}"
    return f"{estimate.value:.{digits}f} ± {estimate.half_width:.{digits}f}"
