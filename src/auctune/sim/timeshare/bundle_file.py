"""Bundle files, and the bundles that they describe."""

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field, model_validator

from auctune.domain import InputError
from auctune.files.schema import STRICT, CheckpointInterval, check_schema
from auctune.files.toml_file import read_toml
from auctune.sim.timeshare.recorded import RecordedBundle, RecordedCurve, of_kind
from auctune.timeshare import Allocator, LearningThread
from auctune.timeshare.named import (
    ALLOCATORS,
    DEFAULT_ALLOCATOR,
    AllocatorName,
    EstimatorName,
    make_allocator,
)

_EXPECTED = "a bundle file in TOML"
_MOST = 10**9

Positive = Annotated[float, Field(gt=0, le=_MOST)]
Whole = Annotated[int, Field(ge=0, le=_MOST)]
Count = Annotated[int, Field(ge=1, le=_MOST)]


class PoolEntry(BaseModel):
    """[pool]."""

    model_config = STRICT

    device: str = "cpu"
    unit_seconds: Positive | None = None
    memory_gb: Positive | None = None
    cpu_threads: Annotated[int, Field(ge=1, le=1024)] = 1
    gradient_checkpointing: CheckpointInterval = 0
    allocator: AllocatorName = DEFAULT_ALLOCATOR


class LaraEntry(BaseModel):
    """[lara]: settings of the allocator, as far as it has them; None: its own."""

    model_config = STRICT

    gamma: Annotated[float, Field(gt=0, le=1)] = 0.9
    exploration: Annotated[float, Field(ge=0, le=_MOST)] | None = None
    estimator: EstimatorName | None = None


class ThreadEntry(BaseModel):
    """[[thread]]."""

    model_config = STRICT

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
    start: Whole = 0
    deadline: Count
    threshold: Positive
    kind: str
    seed: Whole = 0
    batches_per_unit: Positive | None = None
    settings: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _is_a_thread(self) -> "ThreadEntry":
        self.learning()
        return self

    def learning(self) -> LearningThread:
        """As allocators see it."""
        return LearningThread(self.name, self.start, self.deadline, self.threshold)


class BundleFile(BaseModel):
    """The whole file."""

    model_config = STRICT

    pool: PoolEntry = PoolEntry()
    lara: LaraEntry = LaraEntry()
    thread: Annotated[list[ThreadEntry], Field(min_length=1, max_length=1000)]

    @model_validator(mode="after")
    def _exploration_is_read(self) -> "BundleFile":
        is_named = "allocator" in self.pool.model_fields_set
        if self.lara.exploration is not None and not is_named:
            expected = 'allocator = "lara" in [pool], or another that explores'
            raise InputError("lara.exploration", "is given", expected)
        return self

    @model_validator(mode="after")
    def _rates_are_known(self) -> "BundleFile":
        names: set[str] = set()
        for index, entry in enumerate(self.thread):
            if entry.name in names:
                found = f"{entry.name!r} is there twice"
                raise InputError(f"thread[{index}].name", found, "another name")
            names.add(entry.name)
            if self.pool.unit_seconds is None and entry.batches_per_unit is None:
                expected = "a number, or unit_seconds in [pool]"
                raise InputError(f"thread[{index}].batches_per_unit", "is missing", expected)
        return self

    def allocator(self) -> Allocator:
        """Return the allocator with its settings."""
        given = {
            "gamma": self.lara.gamma,
            "batches": self.lara.exploration,
            "estimator": self.lara.estimator,
        }
        known = {field.name for field in fields(ALLOCATORS[self.pool.allocator].settings)}
        said = {key: value for key, value in given.items() if key in known and value is not None}
        return make_allocator(self.pool.allocator, **said)


def read_bundle_file(path: Path) -> BundleFile:
    """Return the bundle in a file.

    Raises:
        InputError: `FILE: thread[1].deadline: found; expected ...`, for the first thing wrong.
    """
    return check_schema(BundleFile, read_toml(path, _EXPECTED), str(path))


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
