"""Jobs of a pool, by requests: what time is left and what is kept as the best."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from auctune.engine.messages.pool import ExportJob, LoadJob, SliceResult, TimeSlice, TrainQuantum
from auctune.engine.pool.device import PoolDevice
from auctune.engine.pool.events import OpenPoolDirectory
from auctune.engine.workers.pool_jobs import PoolJobs
from auctune.train.checkpoint import Checkpoint
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


def train(folder: Path, factory: CountingFactory, *slices: TimeSlice) -> Mapping[str, SliceResult]:
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


def test_checkpoints_take_time_of_the_quantum(tmp_path: Path) -> None:
    seconds = 0.0

    class SlowFactory(LineFactory):
        """Makes lines whose batches take a second, and whose checkpoints take five."""

        def make(self, job: str, settings: Mapping[str, Any]) -> ReadingLine:
            made = super().make(job, settings)
            step, state = made.step, made.state

            def slow_step(batches: int) -> float:
                nonlocal seconds
                seconds += batches
                return step(batches)

            def slow_state() -> Checkpoint:
                nonlocal seconds
                seconds += 5.0
                return state()

            made.step, made.state = slow_step, slow_state  # type: ignore[method-assign]
            return made

    directory = OpenPoolDirectory(tmp_path)
    jobs = PoolJobs(SlowFactory(), directory, saved_every=1.0, now=lambda: seconds)
    device = PoolDevice(jobs.handle)
    device.load(LoadJob("one", {"seed": 1}))
    found = []
    for time in range(2):
        result = device.train(TrainQuantum(time, 10.0, [TimeSlice("one", 99, 1e9)]))
        found.append((result["one"].batches, seconds))
    # The second quantum begins with a checkpoint.
    assert found == [(10, 10.0), (5, 20.0)]


def test_what_a_killed_worker_left_of_a_result_goes(tmp_path: Path) -> None:
    directory = OpenPoolDirectory(tmp_path)
    (directory.results / ".tmp-one-01234567" / ".tmp-adapter-01234567").mkdir(parents=True)
    device = PoolDevice(PoolJobs(LineFactory(), directory).handle)
    device.load(LoadJob("one", {"seed": 1}))
    device.train(TrainQuantum(0, None, [TimeSlice("one", 1, 1e9)]))
    assert device.export(ExportJob("one", None))
    assert [path.name for path in directory.results.iterdir()] == ["one"]
