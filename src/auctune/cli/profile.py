"""`auctune profile`: measure what a device can do with a base."""

from pathlib import Path
from typing import Annotated

import typer


def profile(
    base: Annotated[str, typer.Option(help='"tiny", a folder, or hub:NAME.')],
    out: Annotated[Path, typer.Option(help="Where the profile goes (JSON).")],
    device: Annotated[str, typer.Option(help="cpu, cuda or cuda:N.")] = "cpu",
    dtype: Annotated[str, typer.Option(help="float32 or bfloat16.")] = "float32",
    threads: Annotated[int | None, typer.Option(help="Threads on a CPU; all by default.")] = None,
    quick: Annotated[bool, typer.Option(help="Measure less, within 90 seconds.")] = False,
    seconds: Annotated[
        float | None, typer.Option(min=1.0, help="Time limit; none: 600, or 90 with --quick.")
    ] = None,
) -> None:
    """Measure what a device can do with a base: speed, memory.

    Nothing else should run on the device meanwhile.
    """
    from rich.console import Console

    from auctune.run.measure import measure_to_file

    measure_to_file(
        base, out, device, dtype, threads, quick=quick, seconds=seconds, console=Console()
    )
