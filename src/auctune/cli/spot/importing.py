"""`auctune spot import`: a market file from a published series of counts or a price history."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from auctune.cli._support.options import refuse_combined
from auctune.cli._support.outputs import check_output_paths, write_files
from auctune.domain.errors import InputError
from auctune.sim.spot.importers import Counted, import_prices, import_series, write_trace
from auctune.sim.spot.trace import SpotTrace

_STEP = 300.0
_COUNTED: dict[str, Counted] = {"available": "available", "unavailable": "unavailable"}


def import_market(
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="Write the market: CSV.", show_default=False)
    ],
    gpus: Annotated[int, typer.Option(help="GPUs per instance.", show_default=False)],
    series: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Series of counts: JSON with metadata and data."),
    ] = None,
    counts: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="What a series counts: available or unavailable instances."
        ),
    ] = None,
    instances: Annotated[
        int | None,
        typer.Option(help="Instances of which a series counts the unavailable. Default: 1."),
    ] = None,
    prices: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Price history: JSON of describe-spot-price-history."),
    ] = None,
    zone: Annotated[
        str | None, typer.Option(metavar="NAME", help="Zone, if the history has several.")
    ] = None,
    instance_type: Annotated[
        str | None, typer.Option(metavar="NAME", help="Instance type, if it has several.")
    ] = None,
    product: Annotated[
        str | None, typer.Option(metavar="NAME", help="Product description, if it has several.")
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Time of the first line. Default: the first price."),
    ] = None,
    step: Annotated[
        float | None, typer.Option(help="Seconds between lines of prices. Default: 300.")
    ] = None,
) -> None:
    """Convert a published series or a price history to a market file."""
    check_output_paths((series, prices), (out,))
    if (series is None) == (prices is None):
        found = "is missing" if series is None else "and --prices are given"
        raise InputError("--series", found, "one of --series and --prices")
    try:
        if series is not None:
            of_prices = {
                "--zone": zone, "--instance-type": instance_type, "--product": product,
                "--start": start, "--step": step,
            }  # fmt: skip
            _refuse("--series", of_prices)
            trace = _series(series, counts, gpus, instances)
        else:
            assert prices is not None
            _refuse("--prices", {"--counts": counts, "--instances": instances})
            trace = import_prices(
                prices, gpus, zone=zone, instance_type=instance_type, product=product,
                start=_time(start), step_seconds=_STEP if step is None else step,
            )  # fmt: skip
    except InputError as error:
        raise _at_option(error) from None
    write_files({out: lambda file: write_trace(trace, file)})
    typer.echo(f"{out}: {len(trace.t_s):,} lines of {trace.step_seconds:g} s, {_contents(trace)}")


def _refuse(option: str, others: Mapping[str, object]) -> None:
    given = {name: value is not None for name, value in others.items()}
    refuse_combined(option, given, "one of the two")


def _series(path: Path, counts: str | None, gpus: int, instances: int | None) -> SpotTrace:
    if counts not in _COUNTED:
        found = "is missing" if counts is None else repr(counts)
        raise InputError("--counts", found, f"one of {', '.join(_COUNTED)}")
    if counts == "available":
        _refuse("--counts available", {"--instances": instances})
    return import_series(path, _COUNTED[counts], gpus, 1 if instances is None else instances)


def _at_option(error: InputError) -> InputError:
    """Return an error of the importers, placed at the option that it is about."""
    names = {
        "gpus_per_instance": "gpus", "num_instances": "instances", "step_seconds": "step",
        "counted": "counts",
    }  # fmt: skip
    options = ("zone", "product", "start", "instance_type", *names)
    if error.place not in options:
        return error
    return error.at(f"--{names.get(error.place, error.place).replace('_', '-')}")


def _time(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise InputError("--start", repr(text), "a time such as 2023-02-15T00:00") from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _contents(trace: SpotTrace) -> str:
    parts = []
    if trace.available is not None:
        parts.append(f"{trace.available.mean():.2f} GPUs on average")
    if trace.price is not None:
        parts.append(f"mean price {trace.price.mean():.4f}")
    else:
        parts.append("no prices: use it with --prices or --fixed-price")
    return ", ".join(parts)
