"""Curves of a folder: manifest.json and a CSV each; docs/reference/timeshare-files.md."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from auctune.csv_table import read_table
from auctune.domain import InputError
from auctune.schema import check_schema
from auctune.timeshare import LossCurve

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
    """The curves of a folder, in the manifest's order.

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
    """The curve of one file.

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
    """The curve of this name, or the first of this kind.

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
