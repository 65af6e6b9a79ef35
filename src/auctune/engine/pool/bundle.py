"""Bundles: jobs that share a device, fixed from the first unit on."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from auctune.domain import InputError
from auctune.domain.checks import check_positive
from auctune.engine.pool.epoch import PoolParams
from auctune.sim.timeshare.bundle_file import BundleFile
from auctune.timeshare.named import make_estimator
from auctune.timeshare.thread import LearningThread, bundle_arrays
from auctune.train.base import check_device
from auctune.train.job import LoraJob
from auctune.train.job_kinds import JobKinds
from auctune.train.preemptible import PreemptibleJob


@dataclass(frozen=True, slots=True, eq=False)
class BundleJob:
    """A job of a bundle.

    Attributes:
        thread: its target and quanta.
        make: returns a new one, always the same.
        settings: what it trains; JSON values.
        rate: batches per quantum, or None if they are measured.
        lora: the adapter that it trains, or None if it trains something else.
    """

    thread: LearningThread
    make: Callable[[], PreemptibleJob]
    settings: dict[str, Any]
    rate: float | None = None
    lora: LoraJob | None = None

    def __post_init__(self) -> None:
        if self.rate is not None:
            check_positive(self.rate, "batches_per_unit", "a number > 0")


@dataclass(frozen=True, eq=False)
class Bundle:
    """Jobs and how they share the device.

    Attributes:
        jobs: one at least.
        params: settings of the pool.

    Raises:
        InputError: if there are no jobs, two of one id, or a rate is missing.
    """

    jobs: Sequence[BundleJob]
    params: PoolParams

    def __post_init__(self) -> None:
        bundle_arrays(self.threads)
        for index, job in enumerate(self.jobs):
            if self.params.quantum_seconds is None and job.rate is None:
                place = f"threads[{index}].batches_per_unit"
                raise InputError(place, "is missing", "a number > 0, as units have no length")

    @property
    def threads(self) -> list[LearningThread]:
        """The jobs, as allocators see them."""
        return [job.thread for job in self.jobs]

    @cached_property
    def _jobs_by_id(self) -> dict[str, BundleJob]:
        return {job.thread.id: job for job in self.jobs}

    def make(self, job: str, settings: Mapping[str, Any]) -> PreemptibleJob:
        """Return a new job (`JobFactory`)."""
        return self._jobs_by_id[job].make()

    def release(self, job: str) -> None:
        """Do nothing: jobs of a bundle are loaded until its end."""


def read_bundle(file: BundleFile, path: Path, beside: Path, cache: Path, every: float) -> Bundle:
    """Return the bundle of a file.

    Args:
        file: read and checked.
        path: of it, for errors.
        beside: folder that relative paths in it start from.
        cache: folder of base models that are built here.
        every: seconds between checkpoints of a job.

    Raises:
        InputError: naming the key.
    """
    pool = file.pool
    check_device(pool.device, "float32")
    kinds = JobKinds(pool.device, beside, cache, pool.gradient_checkpointing)
    jobs = []
    for index, entry in enumerate(file.thread):
        try:
            make, lora = kinds.maker(entry.name, entry.kind, entry.seed, entry.settings)
            _check_json(entry.settings)
        except InputError as error:
            place = f"{path}: thread[{index}].{error.place}"
            raise InputError(place, error.found, error.expected) from None
        settings = {"kind": entry.kind, "seed": entry.seed, "settings": entry.settings}
        jobs.append(BundleJob(entry.learning(), make, settings, entry.batches_per_unit, lora))
    params = PoolParams(
        allocator=file.allocator(),
        estimator=make_estimator(file.lara.estimator or "mixture", file.lara.gamma),
        quantum_seconds=pool.unit_seconds,
        memory_bytes=None if pool.memory_gb is None else int(pool.memory_gb * 1e9),
        cpu_threads=pool.cpu_threads,
        saved_every=every,
    )
    return Bundle(jobs, params)


def _check_json(settings: Mapping[str, Any]) -> None:
    """Settings are recorded as JSON."""
    for key, value in settings.items():
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError):
            expected = "finite numbers, texts, and lists and tables of them"
            raise InputError(f"settings.{key}", str(value), expected) from None
