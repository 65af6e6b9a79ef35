"""A worker's background jobs, its ticker, and the cleaning of its work folder."""

import asyncio
import errno
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from auctune.domain import InputError
from auctune.service.files.blobs import Trash
from auctune.service.zones.auction.zone import AuctionZone
from auctune.service.zones.core.actor import ZoneActor
from auctune.service.zones.core.clock import SlotClock
from auctune.service.zones.core.dependencies import DataDirs
from auctune.service.zones.core.worker import BackgroundJobs, ZoneWorker
from support.zones import MadeUpZone


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
        library = SimpleNamespace(
            has_job=lambda job: job not in unrecorded, trash=Trash(work.parent / "trash")
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


def test_too_many_open_files_do_not_end_it() -> None:
    end = RuntimeError("memory is wrong")
    full = [OSError(number, "too many open files") for number in (errno.EMFILE, errno.ENFILE)]
    assert ends_with(*full, end) == [end]


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
    message: Any = {"kind": "not_completed", "slot": slot, "why": "it was lost", "stale": False}
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
