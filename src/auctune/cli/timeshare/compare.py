"""`auctune timeshare compare`: allocators side by side on the same bundles."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from auctune.cli._support.outputs import check_output_paths
from auctune.cli._support.progress import ProgressBars
from auctune.cli.timeshare.inputs import read_allocators, read_recorded
from auctune.cli.timeshare.options import ALLOCATORS, Curves, Out, Seed
from auctune.domain.checks import check_count
from auctune.domain.errors import InputError

if TYPE_CHECKING:
    from auctune.sim.timeshare.bundle import RecordedBundle

TABLES = ("pure", "mixed-1", "mixed-2")


def compare(
    bundle: Annotated[
        str | None,
        typer.Option(
            metavar="BUNDLE.toml",
            help=f"A bundle's file, or {', '.join(TABLES)}; none: drawn ones.",
        ),
    ] = None,
    threads: Annotated[int, typer.Option(help="Threads of each drawn bundle.")] = 10,
    bundles: Annotated[int, typer.Option(help="How many bundles are drawn.")] = 100,
    allocator: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[:KEY=VALUE...]", help=f"{ALLOCATORS}; repeatable; none: one of each."
        ),
    ] = None,
    curves: Curves = None,
    seed: Seed = 0,
    out: Out = None,
) -> None:
    """Compare allocators on bundles of recorded curves.

    Shows threads done, beside the clairvoyant optimum, with 95% intervals over drawn bundles.
    """
    check_count(threads, "--threads", 1)
    check_count(bundles, "--bundles", 1)
    check_count(seed, "--seed", 0)
    named = read_allocators(allocator)
    check_output_paths([None if bundle is None else Path(bundle)], (out,))

    from auctune.cli.timeshare.tables import show_contest
    from auctune.sim.atomic_file import AtomicFiles
    from auctune.sim.timeshare.contest import compete, write_contest

    drawn = bundle is None
    played = _drawn(threads, bundles, curves, seed) if drawn else _given(str(bundle), curves)
    with ProgressBars() as bars:
        advance = bars.counter("bundles", len(played))
        contest = compete(played, [one for _, one in named], advance)
    if out is not None:
        with AtomicFiles([out]) as (opened,):
            write_contest(contest, opened.buffer)
    show_contest([label for label, _ in named], contest)


def _drawn(threads: int, bundles: int, curves: Path | None, seed: int) -> "list[RecordedBundle]":
    from auctune.sim.timeshare.drawn import draw_bundle

    recorded = read_recorded(curves)
    return [draw_bundle(recorded, threads, seed, index=index) for index in range(bundles)]


def _given(bundle: str, curves: Path | None) -> "list[RecordedBundle]":
    from auctune.sim.timeshare.bundle_file import read_bundle_file
    from auctune.sim.timeshare.from_file import bundle_of_file
    from auctune.sim.timeshare.table_bundles import table_bundles
    from auctune.train.timeshare.estimators import ESTIMATORS

    recorded = read_recorded(curves)
    if bundle not in TABLES:
        file = read_bundle_file(Path(bundle), ESTIMATORS)
        return [bundle_of_file(file, recorded, Path(bundle))]
    for made in table_bundles(recorded):
        if made.name == bundle:
            return [made]
    raise InputError("--bundle", f"{bundle!r} has no recorded curves", "curves of that bundle")
