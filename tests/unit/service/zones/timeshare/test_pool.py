"""A pool that goes on from the log of its zone is one that never stopped."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from auctune.engine.pool.clock import WallClock
from auctune.engine.pool.device import PoolDevice
from auctune.engine.pool.epoch import PoolParams
from auctune.engine.pool.events import OpenPoolDirectory, QuantumTrained
from auctune.engine.pool.pool import DesiredJob, OpenPool
from auctune.engine.workers.pool_jobs import PoolJobs
from auctune.service.zones.timeshare.worker import read_pool_state, record_event
from auctune.timeshare.estimators.wls import Wls
from auctune.timeshare.rollout import Rollout
from support.open_pools import LineFactory
from support.pool_threads import ReadingLine
from support.pooled_zones import SECONDS, PooledZone
from support.zones import EPOCH

# Seconds of a batch; the first job is slower than its estimate says, the last one joins later.
JOBS = {"first": 0.9, "second": 0.3, "third": 0.4}
NUM_UNITS = 18


class TimedFactory(LineFactory):
    """Makes lines whose batches take time of a zone's clock."""

    def __init__(self, made: PooledZone) -> None:
        super().__init__()
        self._made = made

    def make(self, job: str, settings: Mapping[str, Any]) -> ReadingLine:
        line = super().make(job, settings)
        step = line.step

        def timed(batches: int) -> float:
            self._made.now.time += batches * JOBS[job]
            return step(batches)

        line.step = timed  # type: ignore[method-assign]
        return line


class ZonePool:
    """The pool of a zone: what it trains is recorded there alone."""

    def __init__(self, folder: Path) -> None:
        self.made = PooledZone()
        self.trained: list[QuantumTrained] = []
        self._directory = OpenPoolDirectory(folder)
        self.start()

    def desired(self) -> dict[str, DesiredJob]:
        return {
            job.id: DesiredJob(
                job.id,
                job.deadline_unit,
                job.target_loss,
                {"seed": 1 + list(JOBS).index(job.id)},
                20.0,
            )
            for job in self.made.zone.state.jobs.values()
            if job.departure is None
        }

    def start(self) -> None:
        """Go on from the log; what is trained again takes no time."""
        made, before = self.made, self.made.now.time
        params = PoolParams(Rollout(), Wls(), quantum_seconds=SECONDS, saved_every=0.0)
        clock = WallClock(SECONDS, EPOCH, now=made.now, wait=self._wait)
        jobs = PoolJobs(TimedFactory(made), self._directory, saved_every=0.0, now=made.now)
        units = made.zone.state.units
        members = {
            name: one.settings
            for name, one in self.desired().items()
            if made.zone.state.jobs[name].has_joined
        }
        last = units[-1]["unit"] if units else -1
        state = read_pool_state(made.log.read(), members, last, clock, made.clock)
        self._pool = OpenPool(params, PoolDevice(jobs.handle), clock, state, self._record, made.now)
        self._pool.start(self._directory.root)
        made.now.time = before

    def run_unit(self) -> None:
        self._pool.reconcile(self.desired())
        self._pool.run_quantum()

    def _wait(self, seconds: float) -> None:
        self.made.now.time += seconds

    def _record(self, event: Any, outlooks: Any) -> None:
        if isinstance(event, QuantumTrained):
            self.trained.append(event)
        record_event(self.made.zone, event, outlooks)
        self.made.keep()


def run(folder: Path, every: int) -> tuple[str, list[str]]:
    """Run a pool that is restarted from time to time; return its quanta and files as text."""
    pool = ZonePool(folder)
    for job in ("first", "second"):
        pool.made.decide(job, cap="500", target_loss=1e-9)
    for unit in range(NUM_UNITS):
        if unit == NUM_UNITS // 2:
            pool.made.decide("third", cap="500", target_loss=1e-9)
        pool.run_unit()
        if unit % every == every - 1:
            pool.made.restart()
            pool.start()
    results = sorted(OpenPoolDirectory(folder).best.glob("*/*/tensors.safetensors"))
    files = [f"{path.parent.name} {path.read_bytes().hex()}" for path in results]
    columns = ("time", "span", "jobs", "shares", "batches", "losses", "seconds", "rates")
    return str([[asdict(one)[name] for name in columns] for one in pool.trained]), files


@pytest.mark.slow
@pytest.mark.parametrize("every", [1, 4])
def test_a_pool_that_is_restarted_shares_and_trains_as_one_that_is_not(
    every: int, tmp_path: Path
) -> None:
    expected, files = run(tmp_path / "whole", NUM_UNITS + 1)
    assert "third" in expected
    assert len(files) >= len(JOBS)
    assert run(tmp_path / "run", every) == (expected, files)
