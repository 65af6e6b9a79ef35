"""Options that the commands of `auctune timeshare` share."""

from pathlib import Path
from typing import Annotated

import typer

ALLOCATORS = "lara, headway, lrf, etf, ucb, thompson, uniform or stf"

Curves = Annotated[
    Path | None, typer.Option(help="Folder of recorded curves; none: those of this package.")
]
Out = Annotated[Path | None, typer.Option(help="Where all that was played goes (parquet).")]
Seed = Annotated[int, typer.Option(help="Of all draws.")]
