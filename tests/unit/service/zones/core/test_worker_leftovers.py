"""The folder of a job stays as long as the job is open, or anybody is at it; then it goes."""

import asyncio
from pathlib import Path

import pytest

from auctune.service.files.blobs import Trash
from auctune.service.zones.core.actor import ZoneActor
from auctune.service.zones.core.worker import WorkdirCleaner
from support.zones import MadeUpZone

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
        """The first that it trains in."""
        return self.made.zone.state.jobs[JOB].cells[0].slot

    def begin(self) -> int:
        """Have a node at it; in which slot."""
        slot = self.slot
        while self.made.zone.state.slot < slot:
            self.made.pass_slots()
        return slot

    def swept(self) -> set[str]:
        """What is left."""

        async def drop() -> None:
            actor = ZoneActor(self.made.zone, self.made.log)
            await WorkdirCleaner(
                self.folder,
                actor,
                self.made.scheduler.is_running,
                self.busy,
                lambda job: job not in self.unrecorded,
                Trash(self.folder.parent / "trash"),
            ).clean()
            await asyncio.to_thread(actor.close)

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
    message = {"kind": "unanswered", "slot": slot, "why": "it was lost", "stale": False}
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
