"""Open pools of lines whose desired jobs follow a script, stopped in the middle."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from auctune.engine.pool.clock import Clock
from auctune.engine.pool.device import PoolDevice
from auctune.engine.pool.epoch import PoolParams
from auctune.engine.pool.events import JobOutlook, OpenPoolDirectory, PoolEvent
from auctune.engine.pool.pool import DesiredJobs, OpenPool
from auctune.engine.workers.pool_jobs import JobFactory, PoolJobs
from support.pool_events import fold
from support.pool_threads import ReadingLine, make_line

Script = Callable[[int], DesiredJobs]
"""Desired jobs as a quantum begins."""

MAX_QUANTA = 60


@dataclass
class LineFactory:
    """Makes lines, and raises an error at some batch.

    Attributes:
        left: batches until then.
        loaded: ids of jobs that were made and not released.
    """

    left: int = 10**9
    loaded: set[str] = field(default_factory=set)

    def make(self, job: str, settings: Mapping[str, Any]) -> ReadingLine:
        """Return a line of the seed in its settings."""
        made = make_line(settings["seed"])
        self.loaded.add(job)
        step = made.step

        def burning(batches: int) -> float:
            self.left -= 1
            if self.left <= 0:
                raise KeyboardInterrupt
            return step(batches)

        made.step = burning  # type: ignore[method-assign]
        return made

    def release(self, job: str) -> None:
        """Note that it is not needed any more."""
        self.loaded.remove(job)


@dataclass
class Record:
    """Log of a pool, which outlives it; stops it after so many events.

    Attributes:
        left: events until then.
        is_lost: whether the event at which it stops was not recorded.
        events: that were recorded.
    """

    left: int = 10**9
    is_lost: bool = False
    events: list[PoolEvent] = field(default_factory=list)

    def __call__(self, event: PoolEvent, outlooks: Sequence[JobOutlook]) -> None:
        """Record an event."""
        self.left -= 1
        if not (self.is_lost and self.left <= 0):
            self.events.append(event)
        if self.left <= 0:
            raise KeyboardInterrupt


def open_pool(
    params: PoolParams,
    directory: OpenPoolDirectory,
    record: Record,
    clock: Clock,
    factory: JobFactory,
    now: Callable[[], float] = time.perf_counter,
) -> OpenPool:
    """Return a pool that was restored from its log."""
    jobs = PoolJobs(factory, directory, params.memory_bytes, params.saved_every, now)
    device, state = PoolDevice(jobs.handle), fold(record.events)
    pool = OpenPool(params, device, clock, state, record, now)
    pool.start(directory.root)
    return pool


def play_pool(
    params: PoolParams,
    root: Path,
    script: Script,
    factory: JobFactory | None = None,
    record: Record | None = None,
) -> list[PoolEvent]:
    """Run a pool until its script desires no job any more, or it is stopped; return its log.

    Raises:
        KeyboardInterrupt: if it was stopped.
    """
    record = record or Record()
    pool = open_pool(params, OpenPoolDirectory(root), record, Clock(), factory or LineFactory())
    while pool.state.last < MAX_QUANTA:
        desired = script(pool.state.last + 1)
        pool.reconcile(desired)
        if not pool.run_quantum() and not desired.keys() - pool.state.gone:
            return record.events
    raise AssertionError("the pool never came to its end")
