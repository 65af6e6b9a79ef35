"""BUNDLE.toml: a bundle of threads and the pool that they share.

    [pool]      device, unit_seconds, memory_gb, cpu_threads, allocator
    [lara]      gamma, exploration, estimator
    [[thread]]  name, start, deadline, threshold, kind, seed, batches_per_unit, settings

Kinds of values are checked here; what settings a kind of thread has, where it is made.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, model_validator

from auctune.domain import InputError
from auctune.schema import STRICT, check_schema
from auctune.sim.spot.toml_file import read_toml
from auctune.timeshare.allocator import Allocator
from auctune.timeshare.balancing.exploration import Exploration
from auctune.timeshare.baselines.shortest_first import ShortestFirst
from auctune.timeshare.baselines.uniform import Uniform
from auctune.timeshare.estimators.estimator import Estimator
from auctune.timeshare.estimators.mixture import Mixture
from auctune.timeshare.estimators.wls import Ls, Wls
from auctune.timeshare.planner import Planner
from auctune.timeshare.thread import LearningThread

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
    allocator: Literal["lara", "uniform", "shortest-first"] = "lara"


class LaraEntry(BaseModel):
    """[lara]."""

    model_config = STRICT

    gamma: Annotated[float, Field(gt=0, le=1)] = 0.9
    exploration: Annotated[float, Field(ge=0, le=_MOST)] | None = None
    estimator: Literal["wls", "ls", "mixture"] = "wls"

    def make_estimator(self) -> Estimator:
        """What foretells needs."""
        if self.estimator == "wls":
            return Wls(gamma=self.gamma)
        return Ls() if self.estimator == "ls" else Mixture()

    def make_exploration(self) -> Exploration:
        """H in batches, or a tenth of the time."""
        return Exploration(batches=self.exploration)


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
    def _rates_are_known(self) -> "BundleFile":
        names: set[str] = set()
        for index, entry in enumerate(self.thread):
            if entry.name in names:
                found = f"{entry.name!r} is there twice"
                raise InputError(f"thread[{index}].name", found, "another name")
            names.add(entry.name)
            if self.pool.unit_seconds is None and entry.batches_per_unit is None:
                expected = "a number, or unit_seconds in [pool], so that it can be measured"
                raise InputError(f"thread[{index}].batches_per_unit", "is missing", expected)
        return self

    def allocator(self) -> Allocator:
        """How threads share."""
        if self.pool.allocator == "uniform":
            return Uniform()
        if self.pool.allocator == "shortest-first":
            return ShortestFirst()
        return Planner(self.lara.make_estimator(), self.lara.make_exploration())


def read_bundle_file(path: Path) -> BundleFile:
    """The bundle in a file.

    Raises:
        InputError: `FILE: thread[1].deadline: found; expected ...`, for the first thing wrong.
    """
    return check_schema(BundleFile, read_toml(path, _EXPECTED), str(path))
