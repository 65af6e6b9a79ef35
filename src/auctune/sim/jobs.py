"""Jobs over cores, each kept on disk as soon as it is done.

A job's result is a JSON value. It lies in `cache/DIGEST.json`, where the digest covers all that the
job says of itself and the code that it runs: its own module, and the modules and packages that it
names. So an interrupted run goes on where it stopped, figures share what they have in common, and
nothing is taken over from other code.
"""

import functools
import importlib
import inspect
import json
import multiprocessing
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

# What all results depend on.
_SHARED = ("auctune.domain", "auctune.numerics", "auctune.sim", "auctune.registry", "auctune.files")


class Job(Protocol):
    """Something to compute, small enough to be sent to another process."""

    @property
    def code(self) -> Sequence[str]:
        """Modules and packages that the result depends on: such as "auctune.auction"."""
        ...

    @property
    def cost(self) -> float:
        """Seconds that it will take, roughly: long ones begin first."""
        ...

    def key(self) -> Mapping[str, Any]:
        """All that the result depends on, but for the code, as JSON."""
        ...

    def run(self) -> Any:
        """The result, as JSON."""
        ...


def run_jobs(
    jobs: Sequence[Job], folder: Path, *, workers: int, console: Console, fresh: bool = False
) -> list[Any]:
    """The results of all jobs, in their order; each different one is run once.

    Args:
        jobs: what to compute.
        folder: where results are kept.
        workers: processes; 1: this one.
        console: for the progress bar.
        fresh: compute all anew.
    """
    folder.mkdir(parents=True, exist_ok=True)
    digests = [_digest(job) for job in jobs]
    by_digest = dict(zip(digests, jobs, strict=True))
    found = (
        {}
        if fresh
        else {name: kept for name in by_digest if (kept := _read(folder, name)) is not None}
    )
    missing = {name: job for name, job in by_digest.items() if name not in found}
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("jobs", total=len(missing))
        for name, result in _compute(missing, workers):
            _write(folder, name, result)
            found[name] = result
            progress.advance(bar)
    return [found[name] for name in digests]


def _compute(jobs: Mapping[str, Job], workers: int) -> Iterator[tuple[str, Any]]:
    longest_first = sorted(jobs, key=lambda name: -jobs[name].cost)
    if workers == 1 or len(jobs) < 2:
        for name in longest_first:
            yield name, jobs[name].run()
        return
    # Spawned, not forked: threads of polars and of the solver do not survive a fork.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(workers, len(jobs)), mp_context=context) as pool:
        futures = {pool.submit(_run, jobs[name]): name for name in longest_first}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _run(job: Job) -> Any:
    return job.run()


def _digest(job: Job) -> str:
    code = [_code_digest(name) for name in (*_SHARED, type(job).__module__, *job.code)]
    key = {"job": type(job).__name__, "code": code, **job.key()}
    return sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:32]


@functools.cache
def _code_digest(name: str) -> str:
    """Return the digest of a module, or of all modules of a package."""
    place = Path(inspect.getfile(importlib.import_module(name)))
    files = sorted(place.parent.rglob("*.py")) if place.name == "__init__.py" else [place]
    return sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()


def _read(folder: Path, name: str) -> Any:
    path = folder / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def _write(folder: Path, name: str, result: Any) -> None:
    # Renamed when it is whole: what a kill leaves is no result.
    part = folder / f"{name}.{os.getpid()}.part"
    part.write_text(json.dumps(result), encoding="utf-8")
    part.replace(folder / f"{name}.json")
