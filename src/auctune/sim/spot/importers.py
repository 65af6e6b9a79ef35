"""Market files from what others publish: series of spot counts, and price histories of a cloud.

Both are JSON. A series is that of github.com/skypilot-org/spot-traces, of "Can't Be Late" (Wu et
al., NSDI'24): `{"metadata": {"gap_seconds": 300}, "data": [0, 1, ...]}`, in some of its files with
`prices` of an instance beside `data`. A price history is what `aws ec2
describe-spot-price-history` prints: `{"SpotPriceHistory": [{"Timestamp": ..., ...}, ...]}`.

Neither says how many GPUs an instance has. Nor does a series say what its numbers count: in that
repository the instances that are available, in the simulator of the same paper 1 where the instance
is not.
"""

import csv
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal, TextIO

import numpy as np
from pydantic import AwareDatetime, BaseModel, Field, TypeAdapter

from auctune.domain import InputError
from auctune.domain.checks import check_count, check_positive
from auctune.files.schema import check_json
from auctune.numerics.arrays import Floats, Ints
from auctune.sim.spot.trace import COLUMNS, MAX_VALUE, SpotTrace

MAX_LINES = 10_000_000
"""Maximum lines of a market file."""

Counted = Literal["available", "unavailable"]
"""What the numbers of a series count."""

# Of what a market file may hold.
_Count = Annotated[int, Field(ge=0, le=MAX_VALUE)]
_Price = Annotated[float, Field(ge=0, le=MAX_VALUE, allow_inf_nan=False)]


class _Metadata(BaseModel):
    gap_seconds: Annotated[float, Field(gt=0, le=MAX_VALUE, allow_inf_nan=False)]


class _Series(BaseModel):
    metadata: _Metadata
    data: Annotated[list[_Count], Field(min_length=2)]
    prices: list[_Price] | None = None


class _PriceChange(BaseModel):
    time: AwareDatetime = Field(alias="Timestamp")
    price: _Price = Field(alias="SpotPrice")
    zone: str = Field(alias="AvailabilityZone")
    instance_type: str = Field(alias="InstanceType")
    product: str = Field(alias="ProductDescription")


class _PriceHistory(BaseModel):
    changes: list[_PriceChange] = Field(alias="SpotPriceHistory")


_SERIES, _HISTORY = TypeAdapter(_Series), TypeAdapter(_PriceHistory)


def import_series(
    path: Path, counted: Counted, gpus_per_instance: int, num_instances: int = 1
) -> SpotTrace:
    """Return a published series of counts, with its prices if it has any.

    Args:
        path: the JSON file.
        counted: what its numbers count.
        gpus_per_instance: counts are multiplied by it, prices divided.
        num_instances: of which some are counted as unavailable.

    Raises:
        InputError: naming the file and the value that is wrong, or `counted` where more would be
            unavailable than there are.
    """
    _check_gpus(gpus_per_instance)
    check_count(num_instances, "num_instances", 1)
    series = check_json(_SERIES, _read(path), str(path))
    count: Ints = np.array(series.data, dtype=np.int64)
    if counted == "unavailable":
        above = np.flatnonzero(count > num_instances)
        if len(above):
            found = f"'unavailable', but data[{above[0]}] in {path} is {count[above[0]]}"
            expected = f"available, or --instances of {count.max()} or more"
            raise InputError("counted", found, expected)
        count = num_instances - count
    most = int(count.max())
    if most * gpus_per_instance > MAX_VALUE:
        found = f"{most} instances of {gpus_per_instance} GPUs"
        raise InputError(str(path), found, f"at most {MAX_VALUE} GPUs")
    price = None
    if series.prices is not None:
        if len(series.prices) != len(count):
            raise InputError(f"{path}: prices", f"{len(series.prices)}", f"{len(count)}, as data")
        price = np.array(series.prices) / gpus_per_instance
    seconds: Floats = series.metadata.gap_seconds * np.arange(len(count), dtype=np.float64)
    return SpotTrace(str(path), seconds, count * gpus_per_instance, price)


def import_prices(
    path: Path,
    gpus_per_instance: int,
    *,
    zone: str | None = None,
    instance_type: str | None = None,
    product: str | None = None,
    start: datetime | None = None,
    step_seconds: float = 300.0,
) -> SpotTrace:
    """Return one price series of a cloud's history: at each step the price that holds then.

    Args:
        path: the JSON file; the order of its changes does not matter.
        gpus_per_instance: prices are divided by it.
        zone, instance_type, product: which series; None: that of all changes.
        start: of the trace, its second 0, with a time zone; None: the first change.
        step_seconds: between lines.

    Raises:
        InputError: naming the file, and what it has if it has no such series or several.
    """
    _check_gpus(gpus_per_instance)
    check_positive(step_seconds, "step_seconds", "a number > 0")
    changes = check_json(_HISTORY, _read(path), str(path)).changes
    if not changes:
        raise InputError(str(path), "has no prices", "one at least in SpotPriceHistory")
    for name, chosen in (("zone", zone), ("instance_type", instance_type), ("product", product)):
        changes = _chosen(path, changes, name, chosen)
    changes = sorted(changes, key=lambda change: change.time)
    begin = changes[0].time if start is None else start
    if begin < changes[0].time:
        expected = f"{changes[0].time.isoformat()} or later, the first price in {path}"
        raise InputError("start", begin.isoformat(), expected)
    seconds = np.array([(change.time - begin).total_seconds() for change in changes])
    num_lines = int(max(seconds[-1], 0.0) // step_seconds) + 1
    if num_lines < 2:
        found = f"no change of price {step_seconds:g} s or more after {begin.isoformat()}"
        raise InputError(str(path), found, "an earlier start or shorter steps")
    if num_lines > MAX_LINES:
        found = f"{step_seconds:g}: {num_lines:,} lines"
        raise InputError("step_seconds", found, f"longer steps, at most {MAX_LINES:,} lines")
    lines: Floats = step_seconds * np.arange(num_lines, dtype=np.float64)
    price = np.array([change.price for change in changes], dtype=np.float64)
    price = price[np.searchsorted(seconds, lines, side="right") - 1]
    return SpotTrace(str(path), lines, None, price / gpus_per_instance)


def _chosen(
    path: Path, changes: Sequence[_PriceChange], name: str, chosen: str | None
) -> list[_PriceChange]:
    """Return the changes of one zone, instance type or product."""
    there = sorted({getattr(change, name) for change in changes})
    if chosen is None and len(there) != 1:
        raise InputError(name, f"is missing; {path} has {', '.join(there)}", "one of them")
    if chosen is not None and chosen not in there:
        raise InputError(name, f"{chosen!r}", f"one of {', '.join(there)}, as {path} has them")
    return [change for change in changes if chosen in (None, getattr(change, name))]


def _check_gpus(gpus_per_instance: int) -> None:
    check_count(gpus_per_instance, "gpus_per_instance", 1)
    if gpus_per_instance > MAX_VALUE:
        raise InputError("gpus_per_instance", f"{gpus_per_instance}", f"at most {MAX_VALUE}")


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(str(path), f"cannot be read ({error.strerror})", "a JSON file") from None


def write_trace(trace: SpotTrace, file: TextIO) -> None:
    """Write a trace as a market file."""
    num = len(trace.t_s)
    available = [""] * num if trace.available is None else trace.available.tolist()
    price = [""] * num if trace.price is None else [f"{price:.12g}" for price in trace.price]
    times = [f"{seconds:.12g}" for seconds in trace.t_s]
    writer = csv.writer(file, lineterminator="\n")
    writer.writerows((COLUMNS, *zip(times, available, price, strict=True)))
