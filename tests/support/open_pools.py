"""Open pools of lines whose desired jobs follow a script, stopped in the middle."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from auctune.engine.event_log import EventLog
from auctune.engine.pool.clock import Clock
from auctune.engine.pool.epoch import PoolParams
from auctune.engine.pool.events import (
    VERSION,
    OpenPoolDirectory,
    PoolEvent,
    PoolStarted,
    PoolUpdate,
    read_event,
)
from auctune.engine.pool.jobs import JobFactory
from auctune.engine.pool.pool import OpenPool
from auctune.engine.pool.process import DesiredJobs
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
class Updates:
    """Events that a pool reported, by number; stops it after so many."""

    left: int = 10**9
    events: dict[int, PoolEvent] = field(default_factory=dict)

    def __call__(self, update: PoolUpdate) -> None:
        """Keep it."""
        self.left -= 1
        if self.left <= 0:
            raise KeyboardInterrupt
        assert update.number not in self.events
        self.events[update.number] = update.event


def open_pool(
    params: PoolParams,
    directory: OpenPoolDirectory,
    log: EventLog,
    clock: Clock,
    factory: JobFactory,
    updates: Updates,
    now: Callable[[], float] = time.perf_counter,
) -> OpenPool:
    """Return a pool that was restored from its log."""
    started = PoolStarted(VERSION, params.allocator.name)
    pool = OpenPool(params, factory, clock, directory, log, started, updates, now)
    pool.restore()
    return pool


def play_pool(
    params: PoolParams,
    root: Path,
    script: Script,
    factory: JobFactory | None = None,
    updates: Updates | None = None,
) -> list[PoolEvent]:
    """Run a pool until its script desires no job any more, or it is stopped; return its log.

    Raises:
        KeyboardInterrupt: if it was stopped.
    """
    directory = OpenPoolDirectory(root)
    log = EventLog(directory.event_log)
    try:
        pool = open_pool(
            params, directory, log, Clock(), factory or LineFactory(), updates or Updates()
        )
        while pool.state.last < MAX_QUANTA:
            desired = script(pool.state.last + 1)
            pool.reconcile(desired)
            if not pool.run_quantum() and not desired.keys() - pool.state.gone:
                return [read_event(record) for record in log.events]
        raise AssertionError("the pool never came to its end")
    finally:
        log.close()
