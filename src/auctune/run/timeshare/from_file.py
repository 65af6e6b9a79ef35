"""A real run from a file: what `run_pool` needs, made of what a person wrote."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from auctune.atomic_files import write_atomically
from auctune.domain import InputError
from auctune.run.timeshare.folder import PoolFolder
from auctune.run.timeshare.order import PoolOrder, PoolThread
from auctune.sim.timeshare.bundle_file import BundleFile
from auctune.timeshare.named import make_estimator
from auctune.train.base import check_device
from auctune.train.job_kinds import JobKinds


def make_order(file: BundleFile, path: Path, beside: Path, cache: Path) -> PoolOrder:
    """What a bundle's file asks for.

    Args:
        file: read and checked.
        path: of it, as errors call it.
        beside: folder that relative paths in it start from.
        cache: folder of bases that are built here.

    Raises:
        InputError: naming the key.
    """
    pool = file.pool
    check_device(pool.device, "float32")
    kinds = JobKinds(pool.device, beside, cache)
    threads = []
    for index, entry in enumerate(file.thread):
        try:
            make = kinds.maker(entry.name, entry.kind, entry.seed, entry.settings)
            _check_plain(entry.settings)
        except InputError as error:
            place = f"{path}: thread[{index}].{error.place}"
            raise InputError(place, error.found, error.expected) from None
        lasting = {"kind": entry.kind, "seed": entry.seed, "settings": entry.settings}
        threads.append(PoolThread(entry.learning(), make, lasting, entry.batches_per_unit))
    return PoolOrder(
        threads=threads,
        allocator=file.allocator(),
        estimator=make_estimator(file.lara.estimator or "mixture", file.lara.gamma),
        unit_seconds=pool.unit_seconds,
        memory_bytes=None if pool.memory_gb is None else int(pool.memory_gb * 1e9),
        cpu_threads=pool.cpu_threads,
    )


def _check_plain(settings: Mapping[str, Any]) -> None:
    """Settings are put on record as JSON, and compared when the run goes on."""
    for key, value in settings.items():
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError):
            expected = "finite numbers, texts, and lists and tables of them"
            raise InputError(f"settings.{key}", str(value), expected) from None


def keep_bundle(path: Path, place: PoolFolder) -> None:
    """Copy a bundle's file into the folder of its run, and where it lay.

    Raises:
        InputError: if the folder cannot be written.
    """
    try:
        place.inputs.mkdir(parents=True, exist_ok=True)
        write_atomically(place.beside, str(path.resolve().parent).encode())
        # Written last: a folder without it holds no run.
        write_atomically(place.bundle, path.read_bytes())
    except OSError as error:
        found = f"cannot be copied to ({error.strerror})"
        raise InputError(str(place.inputs), found, "room for the run's bundle") from None


def kept_beside(place: PoolFolder) -> Path:
    """Where the bundle's file of a run lay that was begun.

    Raises:
        InputError: if the folder holds no run.
    """
    if not place.bundle.is_file():
        found = "holds no run"
        raise InputError(str(place.root), found, "the folder of a run that was started")
    return Path(place.beside.read_text())
