"""The worker of a timeshare zone whose pool or process fails: the zone fails alone, or goes on."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import orjson
import pytest

from auctune.engine.pool.epoch import PoolParams
from auctune.engine.runtime.local import WorkerProcess, start_worker
from auctune.engine.runtime.nodes import NodeSettings
from auctune.engine.runtime.supervisor import SupervisorPolicy
from auctune.engine.unix_time import SlotClock
from auctune.files.device_profile import read_profile
from auctune.service.accounts.budgets import BudgetTracker
from auctune.service.accounts.limits import OpenJobs
from auctune.service.accounts.registry import AccountRegistry
from auctune.service.config.models import LimitsConfig
from auctune.service.event_writer import LogWriter
from auctune.service.files.repository import FileRepository
from auctune.service.metrics import Metrics
from auctune.service.storage import Committer, EventLog, Queries, Store, open_store
from auctune.service.storage.event_log import EventType
from auctune.service.tasks import Notifier
from auctune.service.zones.core import worker as core_worker
from auctune.service.zones.core.actor import ZoneActor
from auctune.service.zones.core.worker import DataDirs
from auctune.service.zones.timeshare import worker as worker_module
from auctune.service.zones.timeshare.state import empty_model
from auctune.service.zones.timeshare.worker import TimeshareWorker
from auctune.service.zones.timeshare.zone import TimeshareZone
from auctune.timeshare.allocator import AllocatorRun
from auctune.timeshare.estimators.mixture import Mixture
from auctune.timeshare.rollout import Rollout
from auctune.timeshare.thread import LearningThread
from support.pooled_zones import PRICE, PooledZone
from support.processes import kill
from support.service_process import rows_of
from support.waits import poll
from support.zones import EPOCH, SetClock

pytest_plugins = ["support.tiny_bases"]
pytestmark = pytest.mark.slow

JOB = "ftjob-a"
SECONDS, DEADLINE = 1.0, 20
PROFILE = read_profile(Path("examples/first-market/cpu-core.json"))


@dataclass
class FailingAllocator:
    """EDF that cannot be started for a job, so many times."""

    remaining: int
    job: str = JOB
    name: str = "failing"
    rollout: Rollout = field(default_factory=Rollout)

    def start(self, threads: Sequence[LearningThread]) -> AllocatorRun:
        if self.remaining and any(thread.id == self.job for thread in threads):
            self.remaining -= 1
            raise ZeroDivisionError
        return self.rollout.start(threads)


class RunningZone:
    """A zone with one job, its log in a database, and a worker whose process is real."""

    def __init__(
        self, folder: Path, store: Store, committer: Committer, settings: NodeSettings, **given: Any
    ) -> None:
        self.now, self.fatal, self.log = SetClock(), list[Exception](), EventLog(store.reader)
        self.clock = SlotClock(EPOCH, SECONDS, self.now)
        quota = OpenJobs(9)
        accounts = AccountRegistry(store.reader, committer, self.now)
        spending = BudgetTracker(accounts, self.now, store.reader)
        recorder = LogWriter(committer, spending, quota, Metrics(quota), Notifier())
        files = FileRepository(folder / "files", Queries(store.reader), committer, LimitsConfig())
        self.data = files.blobs.path("file-a")
        self.data.write_bytes(rows_of(40))
        dependencies = SimpleNamespace(
            store=store,
            dirs=DataDirs(folder, folder),
            committer=committer,
            files=files,
            data=None,
            lock=None,
            on_fatal_error=self.fatal.append,
        )
        zone = TimeshareZone("pool", empty_model({}), self.clock, recorder, PRICE, PROFILE)
        zone.record_created({"version": 1})
        self.actor = ZoneActor(zone, recorder, self.fatal.append)
        bid = PooledZone().asked(JOB)
        self.actor.submit(lambda zone: zone.decide(bid)).result()
        params = PoolParams(**{"allocator": Rollout(), "estimator": Mixture(), **given})
        self.worker = TimeshareWorker(
            self.actor, self.clock, PROFILE, settings, params, cast(Any, dependencies)
        )

    def bodies(self, type_: str) -> list[dict[str, Any]]:
        return [orjson.loads(one.body) for one in self.log.read_job(JOB) if one.type == type_]

    def pass_deadline(self) -> None:
        self.now.time = self.clock.slot_start(DEADLINE)

    def failure(self) -> dict[str, Any]:
        """The failure of the job, once it has failed."""
        return poll(lambda: self.bodies(EventType.FAILED), "the job's failure")[0]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(f"sqlite:///{tmp_path / 'auctune.db'}") as opened:
        yield opened


@pytest.fixture
def committer(store: Store) -> Iterator[Committer]:
    with Committer(store) as started:
        yield started


def set_policy(monkeypatch: pytest.MonkeyPatch, **settings: float) -> None:
    policy = SupervisorPolicy(heartbeat_seconds=120.0, stop_seconds=20.0, **settings)  # type: ignore[arg-type]
    monkeypatch.setattr(core_worker, "_POLICY", policy)


def run(made: RunningZone, play: Callable[[], None]) -> None:
    """Run the worker while a test plays; no error may come out of it."""

    async def main() -> None:
        await made.worker.start()
        try:
            await asyncio.to_thread(play)
        finally:
            await made.worker.stop()
            await asyncio.to_thread(made.actor.close)

    asyncio.run(main())
    assert made.fatal == []


def test_a_process_that_cannot_start_fails_the_zone_s_jobs_at_their_deadlines(
    tmp_path: Path, store: Store, committer: Committer, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_policy(monkeypatch, max_exits=2, retry_seconds=1e9)
    made = RunningZone(
        tmp_path, store, committer, NodeSettings(str(tmp_path / "gone"), str(tmp_path))
    )
    made.pass_deadline()
    run(made, lambda: check_service_failed(made))


def check_service_failed(made: RunningZone) -> None:
    failure = made.failure()
    assert (failure["code"], failure["refund"]) == ("service_failed", True)


@pytest.mark.parametrize("job", [JOB, "one"], ids=["of-the-zone", "of-the-compilation"])
def test_an_allocator_that_raises_errors_fails_the_zone_s_jobs_at_their_deadlines(
    job: str,
    tmp_path: Path,
    tiny_cache: Path,
    store: Store,
    committer: Committer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_policy(monkeypatch, max_exits=2, retry_seconds=1e9)
    allocator = FailingAllocator(9, job)
    settings = NodeSettings("tiny", str(tiny_cache))
    made = RunningZone(tmp_path, store, committer, settings, allocator=allocator)

    def play() -> None:
        poll(lambda: allocator.remaining == 7)
        made.pass_deadline()
        check_service_failed(made)

    run(made, play)


def test_a_pool_goes_on_after_a_defect_and_after_its_process_was_killed(
    tmp_path: Path,
    tiny_cache: Path,
    store: Store,
    committer: Committer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_policy(monkeypatch, max_exits=1000, max_backoff_seconds=1.0)
    processes: list[WorkerProcess] = []
    can_start, num_reads = True, 0
    read_zone = EventLog.read_zone

    def start(*arguments: Any, **keywords: Any) -> WorkerProcess:
        if not can_start:
            raise OSError(11, "Resource temporarily unavailable")
        processes.append(start_worker(*arguments, **keywords))
        return processes[-1]

    def count(*arguments: Any) -> Any:
        nonlocal num_reads
        num_reads += 1
        return read_zone(*arguments)

    monkeypatch.setattr(worker_module, "start_worker", start)
    monkeypatch.setattr(EventLog, "read_zone", count)
    settings = NodeSettings("tiny", str(tiny_cache))
    made = RunningZone(
        tmp_path, store, committer, settings, allocator=FailingAllocator(1), saved_every=1e-3
    )

    def play() -> None:
        nonlocal can_start
        poll(lambda: made.bodies(EventType.TRAINED), "a quantum")
        # After the defect, the state of the pool is that of the log.
        assert (len(processes), num_reads) == (2, 1)
        kill(processes[-1].pid)
        poll(lambda: len(processes) == 3)
        before = len(made.bodies(EventType.TRAINED))
        made.now.time += 3 * SECONDS
        poll(lambda: len(made.bodies(EventType.TRAINED)) > before, "a quantum after the kill")
        assert num_reads == 1
        # A job that is cancelled while there is no process is not restored.
        can_start = False
        kill(processes[-1].pid)
        poll(lambda: processes[-1].is_gone)
        made.actor.submit(lambda zone: zone.cancel(JOB)).result()
        made.data.unlink()
        can_start = True
        poll(lambda: made.bodies("job.settled"), "the job's settlement")
        assert num_reads == 1

    run(made, play)
    assert "Traceback" not in (tmp_path / "logs" / "pool.log").read_text()
    metered = [body for body in made.bodies(EventType.METERED) if body["batches"]]
    units = [body["unit"] for body in metered]
    assert units == sorted(set(units))
    steps = [body["result"]["steps"] for body in made.bodies(EventType.TRAINED)]
    batches = [body["batches"] for body in metered]
    assert steps == [sum(batches[: index + 1]) for index in range(len(steps))]
