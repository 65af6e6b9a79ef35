"""Options that the commands of `auctune spot` share."""

from pathlib import Path
from typing import Annotated

import typer

POLICIES = "ahap, ahanp, od-only, msu, up or robust"
FORECASTERS = "perfect, seasonal, arima or noisy"

Market = Annotated[
    Path, typer.Option(help="The market: CSV with t_s, available and price.", show_default=False)
]
Job = Annotated[Path, typer.Option(help="The job: JOB.toml.", show_default=False)]
Prices = Annotated[
    list[Path] | None,
    typer.Option(help="Prices from this file, beside the counts of --market; repeatable."),
]
OnePrice = Annotated[
    Path | None, typer.Option("--prices", help="Prices from this file; none: those of --market.")
]
FixedPrice = Annotated[
    float | None,
    typer.Option(help="A price that never changes, in the money of the on-demand price."),
]
Policy = Annotated[
    str, typer.Option(metavar="NAME[:KEY=VALUE...]", help=f"How to rent: {POLICIES}.")
]
Policies = Annotated[
    list[str] | None,
    typer.Option(
        "--policy",
        metavar="NAME[:KEY=VALUE...]",
        help=f"{POLICIES}; repeatable; none: one of each.",
    ),
]
Forecast = Annotated[
    str, typer.Option(metavar="NAME[:KEY=VALUE...]", help=f"How to forecast: {FORECASTERS}.")
]
Jobs = Annotated[int, typer.Option(help="How often the job is begun, each at a random slot.")]
Past = Annotated[int, typer.Option(help="Slots that lie before every random start.")]
Seed = Annotated[int, typer.Option(help="Of all draws.")]
Pool = Annotated[
    str | None, typer.Option(metavar="POOL.toml", help="A pool of policies, or default: 112.")
]
Charts = Annotated[
    Path | None, typer.Option(help="A folder for charts (SVG and PNG); none: no charts.")
]
Out = Annotated[Path | None, typer.Option(help="Where all that was played goes (parquet).")]
Cache = Annotated[
    Path | None,
    typer.Option(help="Where forecasts by arima are kept; none: in the user's cache."),
]
