"""Jobs of a pool, by requests: what time is left and what is kept as the best."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from auctune.engine.pool.device import LoadJob, PoolDevice, SliceResult, TimeSlice, TrainQuantum
from auctune.engine.pool.events import OpenPoolDirectory
from auctune.engine.workers.pool_jobs import PoolJobs
from support.open_pools import LineFactory
from support.pool_threads import ReadingLine


class CountingFactory(LineFactory):
    """Counts the batches that its lines train."""

    trained = 0

    def make(self, job: str, settings: Mapping[str, Any]) -> ReadingLine:
        made = super().make(job, settings)
        step = made.step

        def counting(batches: int) -> float:
            self.trained += 1
            return step(batches)

        made.step = counting  # type: ignore[method-assign]
        return made


def train(folder: Path, factory: CountingFactory, *slices: TimeSlice) -> dict[str, SliceResult]:
    """Train a quantum of new lines, which the parent stops after three batches."""
    jobs = PoolJobs(factory, OpenPoolDirectory(folder), should_stop=lambda: factory.trained >= 3)
    device = PoolDevice(jobs.handle)
    for one in slices:
        device.load(LoadJob(one.job, {"seed": 1}))
    return device.train(TrainQuantum(0, None, slices))


def test_a_quantum_ends_when_the_parent_stops_the_worker(tmp_path: Path) -> None:
    slices = [TimeSlice(name, 9, 1e9) for name in ("one", "other")]
    found = train(tmp_path, CountingFactory(), *slices)
    assert found.keys() == {"one"}
    assert (found["one"].batches, found["one"].read) == (3, (12, 36))


def test_a_checkpoint_of_a_loss_between_the_bounds_is_kept(tmp_path: Path) -> None:
    bounds = {"kept": (0.0, 1e9), "reached": (1e9, 2e9), "worse": (0.0, 1e-9)}
    slices = [TimeSlice(name, 1, 1e9, best) for name, best in bounds.items()]
    train(tmp_path, CountingFactory(), *slices)
    assert {path.parent.name for path in OpenPoolDirectory(tmp_path).best.glob("*/*")} == {"kept"}
