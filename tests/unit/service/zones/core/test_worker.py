"""A worker's background jobs, its ticker, and the cleaning of its work folder."""

import asyncio
import errno
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from auctune.domain import InputError
from auctune.domain.epoch_metrics import EpochMetrics
from auctune.engine.messages.node import NotCompleted
from auctune.engine.unix_time import SlotClock
from auctune.service.config.models import LimitsConfig
from auctune.service.files.blobs import Trash
from auctune.service.files.repository import FileRepository
from auctune.service.storage import Committer, EventLog, Queries, Store, StoreError
from auctune.service.zones.auction.zone import AuctionZone
from auctune.service.zones.core import worker as worker_module
from auctune.service.zones.core.actor import ZoneActor
from auctune.service.zones.core.worker import BackgroundJobs, DataDirs, ZoneWorker
from support.store_rows import job_unit, write
from support.zones import MadeUpZone

pytest_plugins = ["support.store_fixtures"]


def given_up(make: Callable[[], Exception | None], times: int) -> list[tuple[str, str]]:
    """What was given up when work was begun so often, and failed each time or did not."""
    told: list[tuple[str, str]] = []

    async def tell(job: str, why: str) -> None:
        told.append((job, why))

    async def work() -> None:
        if (error := make()) is not None:
            raise error

    async def run() -> None:
        background_jobs = BackgroundJobs(tell)
        for _ in range(times):
            background_jobs.start_once("a", work())
            while background_jobs.busy:
                await asyncio.sleep(0)
        await background_jobs.close()

    asyncio.run(run())
    return told


def test_work_that_fails_is_given_up_after_twenty_tries_and_not_before() -> None:
    assert given_up(lambda: OSError("disk full"), 19) == []
    assert given_up(lambda: OSError("disk full"), 21) == [("a", "disk full")]


def test_why_it_was_given_up_names_no_path_of_the_server() -> None:
    full = OSError(errno.ENOSPC, "No space left on device", "/srv/data/work/a.zip")
    assert given_up(lambda: full, 20) == [("a", "No space left on device")]


def test_work_that_waits_for_the_database_is_not_given_up() -> None:
    assert given_up(lambda: StoreError("/srv/data/auctune.db: is away"), 50) == []


def test_work_that_was_done_once_has_all_its_tries_again() -> None:
    failures = iter([OSError("full")] * 19 + [None] + [OSError("full")] * 19)
    assert given_up(lambda: next(failures), 39) == []


def test_wrong_data_are_given_up_at_once() -> None:
    wrong = InputError("data", "bad", "good")
    assert given_up(lambda: wrong, 1) == [("a", str(wrong))]


def test_work_for_a_job_that_is_under_way_is_not_begun_again() -> None:
    begun: list[int] = []

    async def never(job: str, why: str) -> None:
        raise AssertionError((job, why))

    async def run() -> None:
        background_jobs, gate = BackgroundJobs(never), asyncio.Event()

        async def work(number: int) -> None:
            begun.append(number)
            await gate.wait()

        background_jobs.start_once("a", work(1))
        await asyncio.sleep(0)
        background_jobs.start_once("a", work(2))
        background_jobs.start_once("b", work(3))
        await asyncio.sleep(0)
        gate.set()
        while background_jobs.busy:
            await asyncio.sleep(0)
        background_jobs.start_once("a", work(4))
        while background_jobs.busy:
            await asyncio.sleep(0)

    asyncio.run(run())
    assert begun == [1, 3, 4]


class PlainWorker(ZoneWorker[AuctionZone]):
    """A worker whose ticks fail with one error after the other; a test answers for its nodes."""

    def __init__(
        self, made: MadeUpZone, work: Path, unrecorded: set[str], errors: tuple[Exception, ...] = ()
    ) -> None:
        self.fatal: list[Exception] = []
        self.actor = ZoneActor(made.zone, made.log)

        async def no_results(job: str) -> list[Any]:
            return []

        library = SimpleNamespace(
            has_job=lambda job: job not in unrecorded,
            trash=Trash(work.parent / "trash"),
            unlisted_results=no_results,
        )
        dependencies = SimpleNamespace(
            store=SimpleNamespace(reader=None),
            dirs=DataDirs(work, work),
            committer=None,
            files=library,
            data=None,
            lock=None,
            on_fatal_error=self.fatal.append,
        )
        clock = SlotClock(0.0, 0.01, lambda: 5.0)
        super().__init__(self.actor, clock, work, cast(Any, dependencies))
        self._made, self._errors = made, list(errors)

    async def _stop_processes(self) -> None:
        await asyncio.to_thread(self.actor.close)

    async def _run_slot(self) -> None:
        raise self._errors.pop(0)

    def _is_running(self, job: str) -> bool:
        return self._made.scheduler.is_running(job)

    def _result_folder(self, job: Any) -> None:
        return None


def ends_with(*errors: Exception) -> list[Exception]:
    async def run() -> list[Exception]:
        worker = PlainWorker(MadeUpZone(num_nodes=1), Path("work"), set(), errors)
        await worker._run()
        await worker.stop()
        return worker.fatal

    return asyncio.run(run())


def test_too_many_open_files_and_a_database_that_is_away_do_not_end_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker_module, "_RETRY_SECONDS", 0.0)
    end = RuntimeError("memory is wrong")
    full = [OSError(number, "too many open files") for number in (errno.EMFILE, errno.ENFILE)]
    assert ends_with(*full, StoreError("is away"), end) == [end]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_other_errors_of_the_system_do(number: int) -> None:
    end = OSError(number, "no")
    assert ends_with(end) == [end]


JOB = "ftjob-a"


class Place:
    """A zone with one job whose checkpoints lie in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.busy: set[str] = set()
        self.unrecorded: set[str] = set()
        self.made = MadeUpZone(num_nodes=1)
        self.made.zone.decide(self.made.bid(JOB, "100", rows=400, slots=9))
        self.made.keep()
        (folder / JOB).mkdir()
        (folder / JOB / "checkpoint").write_bytes(b"weights")

    @property
    def slot(self) -> int:
        return self.made.zone.state.jobs[JOB].cells[0].slot

    def begin(self) -> int:
        """Have a node at it; in which slot."""
        slot = self.slot
        while self.made.zone.state.slot < slot:
            self.made.pass_slots()
        return slot

    def swept(self) -> set[str]:
        async def drop() -> None:
            worker = PlainWorker(self.made, self.folder, self.unrecorded)
            worker._jobs.busy |= self.busy
            await worker._clean_work_folder()
            await worker.stop()

        asyncio.run(drop())
        return {path.name for path in self.folder.iterdir()}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    (tmp_path / "work").mkdir()
    return Place(tmp_path / "work")


def test_an_open_job_keeps_its_folder_also_while_it_is_paused(place: Place) -> None:
    assert place.swept() == {JOB}
    place.made.zone.pause(JOB)
    assert place.swept() == {JOB}


def test_a_cancelled_job_s_folder_goes_once_no_node_is_at_it(place: Place) -> None:
    slot = place.begin()
    place.made.zone.cancel(JOB)
    place.made.keep()
    assert place.swept() == {JOB}
    place.made.answer(slot, "n0")
    assert place.swept() == set()


def test_an_order_that_nobody_answered_holds_no_folder(place: Place) -> None:
    slot = place.begin()
    place.made.zone.cancel(JOB)
    message = NotCompleted(request="", slot=slot, tasks=(JOB,), why="it was lost", begun=True)
    place.made.scheduler.on_message(place.made.zone, "n0", message)
    assert place.swept() == set()


def test_a_finished_job_s_folder_goes_once_nobody_packs_it(place: Place) -> None:
    slot = place.begin()
    place.made.answer(slot, "n0", share=0.5, state="done")
    assert place.swept() == {JOB}
    place.busy.add(JOB)
    place.made.finish(JOB)
    assert place.swept() == {JOB}
    place.busy.clear()
    assert place.swept() == set()


def test_what_jobs_left_before_a_restart_goes_and_nothing_else(place: Place) -> None:
    for name in ("ftjob-b", "ftjob-c"):
        (place.folder / name).mkdir()
    for name in ("ftjob-b.zip", "ftjob-c.jsonl", "notes.txt"):
        (place.folder / name).write_bytes(b"rows")
    place.made.restart()
    assert place.swept() == {JOB, "notes.txt"}


def test_what_the_database_does_not_know_is_moved_and_not_deleted(place: Place) -> None:
    (place.folder / "ftjob-b").mkdir()
    (place.folder / "ftjob-b" / "adapter").write_bytes(b"weights")
    place.unrecorded.add("ftjob-b")
    assert place.swept() == {JOB}
    (kept,) = (place.folder.parent / "trash").rglob("adapter")
    assert kept.read_bytes() == b"weights"


class ArchivingWorker(PlainWorker):
    """A worker with real files, whose data process packs at once."""

    def __init__(self, made: MadeUpZone, work: Path, store: Store, committer: Committer) -> None:
        super().__init__(made, work, set())
        self._events = EventLog(store.reader)
        self._files = FileRepository(
            work.parent / "files", Queries(store.reader), committer, LimitsConfig()
        )
        self._data = cast(Any, SimpleNamespace(archive=self._pack))

    def _pack(self, source: Path, target: Path, name: str, *, owner: str) -> "Future[None]":
        target.write_bytes(f"{source.name} of {name}".encode())
        done: Future[None] = Future()
        done.set_result(None)
        return done


def test_results_are_stored_once_though_the_service_ended_before_that_was_recorded(
    place: Place, store: Store, committer: Committer, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.made.answer(place.begin(), "n0", share=0.5, state="done")
    metrics = EpochMetrics(1, 7, 1.0, 0.5, 2.0, 0.25)
    monkeypatch.setattr(worker_module, "epoch_adapters", lambda folder: [(metrics, folder)])
    unit = job_unit(committer, JOB)
    assert write(committer, unit) == [None]

    async def archive(answer: bool | None) -> list[str]:
        worker = ArchivingWorker(place.made, place.folder, store, committer)
        if answer is None:
            # It ends before the job is finished, or as the job is cancelled.
            worker._actor = cast(Any, SimpleNamespace(call=lambda run: asyncio.sleep(0)))
        await worker._archive(JOB, "ada", place.folder / JOB / "adapter")
        stored = list((await worker._files.results("ada", JOB)).values())
        await worker.stop()
        return [record.id for record in stored]

    names = [f"{JOB}.zip", f"{JOB}.csv", f"{JOB}.step-7.zip"]
    first = asyncio.run(archive(None))
    again = asyncio.run(archive(True))
    assert [row.filename for row in Queries(store.reader).results("ada", JOB, 0.0)] == names
    assert first == again
    assert JOB not in place.made.zone.state.jobs
    (finished,) = [event for event in place.made.log.read() if event.type == "job.finished"]
    assert finished.body["files"] == [again[1], again[0]]

    async def sweep() -> None:
        worker = ArchivingWorker(place.made, place.folder, store, committer)
        await worker._clean_work_folder()
        await worker.stop()

    # The row of the job lists none: it was cancelled.
    asyncio.run(sweep())
    assert Queries(store.reader).results("ada", JOB, 0.0) == []
    assert list((place.folder.parent / "files").iterdir()) == []
