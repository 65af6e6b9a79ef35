"""`auctune timeshare simulate`: one allocator on a bundle of recorded curves."""

from pathlib import Path
from typing import Annotated

import typer

from auctune.cli._support.outputs import check_output_paths
from auctune.cli.timeshare.inputs import read_allocator, read_recorded
from auctune.cli.timeshare.options import ALLOCATORS, Curves, Out


def simulate(
    bundle: Annotated[Path, typer.Argument(metavar="BUNDLE.toml", help="Threads and pool.")],
    allocator: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[:KEY=VALUE...]",
            help=f"How to share: {ALLOCATORS}; none: as the file says.",
        ),
    ] = None,
    curves: Curves = None,
    out: Out = None,
) -> None:
    """Share a pool among the threads of a bundle, without training.

    Each thread follows the recorded loss curve of its kind.
    """
    check_output_paths([bundle], (out,))
    chosen = None if allocator is None else read_allocator(allocator)

    from auctune.cli.timeshare.tables import show_play
    from auctune.sim.atomic_file import AtomicFiles
    from auctune.sim.timeshare.bundle_file import read_bundle_file
    from auctune.sim.timeshare.contest import write_play
    from auctune.sim.timeshare.from_file import bundle_of_file
    from auctune.train.timeshare.estimators import ESTIMATORS

    file = read_bundle_file(bundle, ESTIMATORS)
    recorded = bundle_of_file(file, read_recorded(curves), bundle)
    used = file.allocator(ESTIMATORS) if chosen is None else chosen
    outcome = recorded.play(used)
    if out is not None:
        with AtomicFiles([out]) as (opened,):
            write_play(recorded, outcome, opened.buffer)
    show_play(used.name, recorded, outcome, recorded.optimum())
