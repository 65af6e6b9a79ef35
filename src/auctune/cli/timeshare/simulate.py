"""`auctune timeshare simulate` and `compare`: allocators on recorded loss curves."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from auctune.cli._support.options import LABEL, parse_labels
from auctune.cli._support.outputs import check_output_paths, write_files
from auctune.cli._support.progress import ProgressBars
from auctune.cli._support.tables import interval_text, make_table, print_table
from auctune.domain.checks import check_count
from auctune.domain.errors import InputError
from auctune.registry.policies import TIMESHARE_ALLOCATORS
from auctune.sim.timeshare.bundle_file import bundle_of_file, read_bundle_file
from auctune.sim.timeshare.comparison import (
    AllocatorComparison,
    compare_allocators,
    write_comparison,
    write_play,
)
from auctune.sim.timeshare.recorded import SHIPPED, RecordedBundle, read_curves
from auctune.sim.timeshare.table_bundles import draw_bundle, table_bundles
from auctune.timeshare import Allocator, BundleOutcome, ClairvoyantOptimum

_NAMES = TIMESHARE_ALLOCATORS.names()
_ALLOCATORS = f"{', '.join(_NAMES[:-1])} or {_NAMES[-1]}"
_TABLES = ("pure", "mixed-1", "mixed-2")

Curves = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Folder of recorded curves. Default: those of this package."),
]


def simulate(
    bundle: Annotated[
        Path, typer.Argument(metavar="BUNDLE.toml", help="Threads and pool.", show_default=False)
    ],
    allocator: Annotated[
        str | None,
        typer.Option(
            metavar=LABEL, help=f"The allocator: {_ALLOCATORS}. Default: that of the file."
        ),
    ] = None,
    curves: Curves = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write each unit of time (parquet).")
    ] = None,
) -> None:
    """Simulate one allocator on a bundle.

    Nothing is trained: each thread follows the recorded loss curve of its kind.
    """
    check_output_paths([bundle], (out,))
    chosen = None if allocator is None else _read_allocators([allocator])[0]
    file = read_bundle_file(bundle)
    recorded = bundle_of_file(file, read_curves(curves or SHIPPED), bundle)
    used = file.allocator() if chosen is None else chosen
    outcome = recorded.play(used)
    write_files({out: lambda opened: write_play(recorded, outcome, opened.buffer)})
    _print_outcome(used.name, recorded, outcome, recorded.optimum())


def compare(
    bundle: Annotated[
        str | None,
        typer.Option(
            metavar="BUNDLE.toml",
            help=f"A bundle file, or {', '.join(_TABLES)}. Default: random bundles.",
        ),
    ] = None,
    threads: Annotated[int, typer.Option(help="Threads per random bundle.")] = 10,
    bundles: Annotated[int, typer.Option(help="Number of random bundles.")] = 100,
    allocator: Annotated[
        list[str] | None,
        typer.Option(metavar=LABEL, help=f"{_ALLOCATORS}; repeatable. Default: one of each."),
    ] = None,
    curves: Curves = None,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the result of each bundle (parquet).")
    ] = None,
) -> None:
    """Compare allocators on bundles.

    Shows the number of completed threads and the clairvoyant optimum, with 95% confidence intervals
    over random bundles. Threads follow recorded loss curves.
    """
    check_count(threads, "--threads", 1)
    check_count(bundles, "--bundles", 1)
    check_count(seed, "--seed", 0)
    labels = allocator or TIMESHARE_ALLOCATORS.names()
    allocators = _read_allocators(labels)
    check_output_paths([None if bundle is None else Path(bundle)], (out,))
    if bundle is None:
        recorded = read_curves(curves or SHIPPED)
        played = [draw_bundle(recorded, threads, seed, index=index) for index in range(bundles)]
    else:
        played = [_read_bundle(bundle, curves)]
    with ProgressBars() as bars:
        advance = bars.counter("bundles", len(played))
        comparison = compare_allocators(played, allocators, advance)
    write_files({out: lambda opened: write_comparison(comparison, opened.buffer)})
    _print_comparison(labels, comparison)


def _read_allocators(labels: Sequence[str]) -> list[Allocator]:
    """Make allocators such as `lara:estimator=mixture`."""
    return parse_labels(labels, "--allocator", TIMESHARE_ALLOCATORS)


def _read_bundle(bundle: str, curves: Path | None) -> RecordedBundle:
    recorded = read_curves(curves or SHIPPED)
    if bundle not in _TABLES:
        return bundle_of_file(read_bundle_file(Path(bundle)), recorded, Path(bundle))
    for one in table_bundles(recorded):
        if one.name == bundle:
            return one
    raise InputError("--bundle", f"{bundle!r} has no recorded curves", "curves of that bundle")


def _print_outcome(
    name: str, bundle: RecordedBundle, outcome: BundleOutcome, optimum: ClairvoyantOptimum
) -> None:
    numbers = ("start", "deadline", "threshold", "loss", "batches", "units", "finish")
    table = make_table("thread", *numbers, "", right=numbers)
    for k, thread in enumerate(bundle.threads):
        losses = [loss for loss in outcome.losses[:, k].tolist() if not math.isnan(loss)]
        done = bool(outcome.done[k])
        table.add_row(
            thread.id,
            str(thread.start),
            str(thread.deadline),
            f"{thread.threshold:.4g}",
            f"{losses[-1]:.4g}" if losses else "",
            f"{outcome.samples[k]:.0f}",
            f"{outcome.shares[:, k].sum():.1f}",
            f"{outcome.finish[k]:.0f}" if done else "",
            "done" if done else "missed",
        )
    print_table(table)
    typer.echo(
        f"{name}: {outcome.num_done} of {len(bundle.threads)} done, "
        f"clairvoyant optimum {optimum.num_done}; {outcome.switches} switches"
    )


def _print_comparison(labels: Sequence[str], comparison: AllocatorComparison) -> None:
    numbers = ("done", "of optimum", "switches")
    table = make_table("allocator", *numbers, right=numbers)
    for index, label in enumerate(labels):
        score = comparison.score(index)
        ratio = score.of_optimum
        table.add_row(
            label,
            interval_text(score.done, ".2f"),
            "" if ratio is None else interval_text(ratio, ".3f"),
            f"{score.switches.value:.0f}",
        )
    print_table(table)
    num = len(comparison.bundles)
    mean = comparison.optimum.mean()
    typer.echo(f"{num} bundle{'s' * (num > 1)}; clairvoyant optimum {mean:.2f}")
