"""Recorded loss curves, and bundles of threads that follow them."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from auctune.domain import InputError
from auctune.files.csv_table import read_table
from auctune.files.schema import check_schema
from auctune.numerics.arrays import Floats
from auctune.timeshare import (
    Allocator,
    BundleOutcome,
    ClairvoyantOptimum,
    LearningThread,
    LossCurve,
    clairvoyant_optimum,
    play,
    true_needs,
)

# A threshold lies a hair above its loss: the order of sums must not decide whether it is reached.
_HAIR = 1.0 + 1e-9
MANIFEST = "manifest.json"
COLUMNS = ("batches", "loss")
SHIPPED = Path(__file__).parent / "curves"

_EXPECTED = "a manifest of recorded curves in JSON"

Text = Annotated[str, Field(min_length=1)]
Positive = Annotated[float, Field(gt=0, le=1e12)]


class CurveEntry(BaseModel):
    """What the manifest says of one curve; other keys are for readers."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True, allow_inf_nan=False)

    name: Text
    file: Text
    bundle: Text
    kind: Text
    model: str = ""
    seed: int = 0
    batch_size: Annotated[int, Field(ge=1)] = 64
    batches_per_second: Positive


class Manifest(BaseModel):
    """The whole manifest."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)

    curves: Annotated[list[CurveEntry], Field(min_length=1)]


@dataclass(frozen=True, slots=True, eq=False)
class RecordedCurve:
    """A training run that was recorded, alone on a device.

    Attributes:
        name: its own in the folder.
        bundle: it was recorded for.
        kind: of the task; runs of one kind differ in their seeds.
        seed: of the run.
        batches_per_second: on the recording device, with all of it.
        curve: its loss.
    """

    name: str
    bundle: str
    kind: str
    seed: int
    batches_per_second: float
    curve: LossCurve


def read_curves(folder: Path = SHIPPED) -> tuple[RecordedCurve, ...]:
    """Return the curves of a folder, in the manifest's order.

    Raises:
        InputError: naming the file, and the key or line.
    """
    path = folder / MANIFEST
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise InputError(str(path), f"cannot be read ({error.strerror})", _EXPECTED) from None
    except ValueError as error:
        raise InputError(str(path), f"is not JSON ({error})", _EXPECTED) from None
    manifest = check_schema(Manifest, content, str(path))
    seen: set[str] = set()
    for index, entry in enumerate(manifest.curves):
        if entry.name in seen:
            place = f"{path}: curves[{index}].name"
            raise InputError(place, f"{entry.name!r} is there twice", "another name")
        seen.add(entry.name)
    return tuple(_read_curve(folder, entry) for entry in manifest.curves)


def read_curve_file(path: Path) -> LossCurve:
    """Return the curve of one file.

    Raises:
        InputError: naming the file and the line: for batches that do not rise, or no number.
    """
    table = read_table(path, COLUMNS)
    batches = table.number("batches", "a whole number > 0", 0.0, above=True).to_numpy()
    loss = table.optional_number("loss", "a loss").to_numpy()
    lines = table.frame["line"]
    missing = np.flatnonzero(np.isnan(loss))
    if len(missing):
        place = f"{path}: line {lines[int(missing[0])]}: loss"
        raise InputError(place, "is missing", "a loss")
    wrong = np.flatnonzero((np.diff(batches, prepend=0.0) <= 0) | (batches != np.floor(batches)))
    if len(wrong):
        row = int(wrong[0])
        place = f"{path}: line {lines[row]}: batches"
        raise InputError(place, f"{batches[row]:g}", "rising whole numbers > 0")
    if not len(batches):
        raise InputError(str(path), "has no lines of data", "one at least")
    return LossCurve(batches, loss)


def of_kind(curves: Sequence[RecordedCurve], kind: str) -> RecordedCurve:
    """Return the curve of this name, or the first of this kind.

    Raises:
        InputError: if there is none.
    """
    for curve in curves:
        if curve.name == kind:
            return curve
    for curve in curves:
        if curve.kind == kind:
            return curve
    known = dict.fromkeys([curve.kind for curve in curves] + [curve.name for curve in curves])
    raise InputError("kind", f"{kind!r} was not recorded", f"one of {', '.join(known)}")


def _read_curve(folder: Path, entry: CurveEntry) -> RecordedCurve:
    return RecordedCurve(
        name=entry.name,
        bundle=entry.bundle,
        kind=entry.kind,
        seed=entry.seed,
        batches_per_second=entry.batches_per_second,
        curve=read_curve_file(folder / entry.file),
    )


@dataclass(frozen=True, slots=True, eq=False)
class RecordedBundle:
    """Threads with the curves that they will follow.

    Attributes:
        name: as tables name it.
        threads: of the bundle.
        curves: the loss of each.
        rates: N of each, batches in a unit of time with the whole pool.
        windows: batches over whose mean success is judged, see `play`.
    """

    name: str
    threads: tuple[LearningThread, ...]
    curves: tuple[LossCurve, ...]
    rates: tuple[float, ...]
    windows: tuple[float, ...] | None = None

    def play(self, allocator: Allocator) -> BundleOutcome:
        return play(allocator, self.threads, self.curves, self.rates, self.windows)

    def optimum(self) -> ClairvoyantOptimum:
        """Return the most that any allocator can do: an upper bound."""
        needs = true_needs(self.threads, self.curves, self.rates, self.windows)
        return clairvoyant_optimum(self.threads, needs)

    def attainable(self) -> ClairvoyantOptimum:
        """Return the most that can be done one thread after another, with the whole pool for each.

        Needs are then whole units of time, up to the first after which it is seen to be done.
        """
        return clairvoyant_optimum(self.threads, np.array(self.units_alone))

    @property
    def units_alone(self) -> list[float]:
        """[k] units of time that each thread needs alone, with the whole pool."""
        windows = self.windows or [None] * len(self.threads)
        return [
            units_alone(curve, rate, thread.threshold, window)
            for thread, curve, rate, window in zip(
                self.threads, self.curves, self.rates, windows, strict=True
            )
        ]


def windows_of(rates: Sequence[float]) -> tuple[float, ...]:
    """Return the windows of a unit of time with the whole pool: N batches, whole ones."""
    return tuple(float(max(1, math.floor(rate))) for rate in rates)


def units_alone(
    curve: LossCurve, rate: float, threshold: float, window: float | None = None
) -> float:
    """Units of time after which a thread alone on the pool is seen at or under a threshold.

    Looked for as far as the curve was recorded; infinite if it is not reached.
    """
    under = np.flatnonzero(_units(curve, rate, window) <= threshold)
    return float(under[0]) + 1.0 if len(under) else float("inf")


def level_at(curve: LossCurve, rate: float, depth: float, window: float | None = None) -> float:
    """Return the loss that success is judged on, with the whole pool, at a share of a curve.

    Args:
        curve: the curve.
        rate: N, batches in a unit.
        depth: the share, in (0, 1].
        window: as of `play`; None: a unit's own batches.

    Raises:
        InputError: if a unit is less than a batch.
    """
    return float(_units_up_to(curve, rate, depth, window)[-1]) * _HAIR


def lowest_up_to(curve: LossCurve, rate: float, depth: float, window: float | None = None) -> float:
    """Return the least loss up to a share of a curve; arguments as of `level_at`."""
    return float(_units_up_to(curve, rate, depth, window).min()) * _HAIR


def _units_up_to(curve: LossCurve, rate: float, depth: float, window: float | None) -> Floats:
    if rate < 1.0:
        raise InputError("rate", f"{rate:g} batches in a unit of time", "one at least")
    means = _units(curve, rate, window)
    return means[: max(1, int(depth * len(means)))]


def _units(curve: LossCurve, rate: float, window: float | None) -> Floats:
    """[t] mean losses that units of time of a thread alone end with; NaN without a batch."""
    # Whole batches, as `play` learns them.
    ends = np.floor(np.arange(max(1, int(curve.num_batches / rate)) + 1) * rate + 1e-9)
    since, ends = ends[:-1], ends[1:]
    if window is not None:
        since = np.where(ends > since, np.maximum(0.0, ends - window), ends)
    batches = ends - since
    means = np.full(len(batches), np.nan)
    np.divide(curve.sums(ends) - curve.sums(since), batches, out=means, where=batches > 0)
    return means
