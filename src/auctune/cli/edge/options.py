"""Options that the commands of `auctune edge` share."""

from pathlib import Path
from typing import Annotated

import typer

from auctune.domain.errors import InputError

MECHANISMS = "eris, tiresias, antman or liquid"

Instance = Annotated[
    Path, typer.Argument(help="The market and its jobs (JSON).", show_default=False)
]
Bound = Annotated[str, typer.Option(help="Upper bound on welfare: none, lp or milp.")]
TimeLimit = Annotated[float, typer.Option(help="Seconds for --bound milp.")]
Report = Annotated[Path | None, typer.Option(help="Where the figures go (JSON); none: nowhere.")]
Charts = Annotated[
    Path | None, typer.Option(help="A folder for charts (SVG and PNG); none: no charts.")
]


def check_bound(kind: str, time_limit: float) -> None:
    """Refuse a bound that there is not.

    Raises:
        InputError: naming the option.
    """
    kinds = ("none", "lp", "milp")
    if kind not in kinds:
        raise InputError("--bound", f"{kind!r} is not offered", f"one of {', '.join(kinds)}")
    if not 0 < time_limit < float("inf"):
        raise InputError("--time-limit", f"{time_limit!r}", "seconds > 0")
