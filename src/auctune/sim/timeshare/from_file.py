"""A bundle file on recorded curves."""

from collections.abc import Sequence
from pathlib import Path

from auctune.domain import InputError
from auctune.sim.timeshare.bundle import RecordedBundle
from auctune.sim.timeshare.bundle_file import BundleFile, ThreadEntry
from auctune.sim.timeshare.recorded import RecordedCurve, of_kind


def bundle_of_file(file: BundleFile, curves: Sequence[RecordedCurve], path: Path) -> RecordedBundle:
    """The threads of a file, each with the curve that has its kind's name, or is of its kind.

    Of several curves of a kind it is the one with the thread's seed, else the first. N is what the
    file says, else what was measured when the curve was recorded, for units of `unit_seconds`.

    Args:
        file: the bundle.
        curves: recorded.
        path: as errors name the file.

    Raises:
        InputError: naming the thread's kind, if it was not recorded.
    """
    found = []
    for index, entry in enumerate(file.thread):
        try:
            found.append(_curve_for(entry, curves))
        except InputError as error:
            place = f"{path}: thread[{index}].{error.place}"
            raise InputError(place, error.found, error.expected) from None
    return RecordedBundle(
        name=path.stem,
        threads=tuple(entry.learning() for entry in file.thread),
        curves=tuple(curve.curve for curve in found),
        rates=tuple(
            _rate(file, entry, curve) for entry, curve in zip(file.thread, found, strict=True)
        ),
    )


def _curve_for(entry: ThreadEntry, curves: Sequence[RecordedCurve]) -> RecordedCurve:
    # A task of a module is recorded under its name there.
    kind = entry.kind.rpartition(":")[2]
    for curve in curves:
        if (curve.kind, curve.seed) == (kind, entry.seed):
            return curve
    return of_kind(curves, kind)


def _rate(file: BundleFile, entry: ThreadEntry, curve: RecordedCurve) -> float:
    if entry.batches_per_unit is not None:
        return entry.batches_per_unit
    assert file.pool.unit_seconds is not None
    return curve.batches_per_second * file.pool.unit_seconds
