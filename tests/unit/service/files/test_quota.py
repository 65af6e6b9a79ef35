"""What is coming in counts like what is stored: no number of uploads at once has more room."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from auctune.service.accounts.limits import LimitReachedError
from auctune.service.config.models import LimitsConfig
from auctune.service.files import repository
from auctune.service.files.repository import FileRecord, FileRepository, Purpose
from auctune.service.storage import Committer, Queries, open_store

LIMITS = LimitsConfig(
    upload_bytes=1000,
    files=8,
    stored_bytes=1000,
)


class Name:
    filename = "rows.jsonl"
    purpose = Purpose.TRAINING
    expires_seconds: int | None = None


class Sender:
    """A client that sends when it is told to."""

    def __init__(self) -> None:
        self._parts: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.taken = asyncio.Event()

    async def chunks(self) -> AsyncIterator[bytes]:
        while (part := await self._parts.get()) is not None:
            yield part
            self.taken.set()

    def push(self, size: int) -> None:
        self.taken.clear()
        self._parts.put_nowait(b"r" * size)

    async def send(self, size: int) -> None:
        self.push(size)
        await self.taken.wait()

    def end(self) -> None:
        self._parts.put_nowait(None)


def with_library(
    folder: Path,
    limits: LimitsConfig,
    work: Callable[[FileRepository], Awaitable[None]],
    now: Callable[[], float] = time.time,
) -> None:
    async def run() -> None:
        with open_store(folder) as store:
            committer = Committer(store)
            files = FileRepository(folder / "files", Queries(store.reader), committer, limits, now)
            try:
                await work(files)
            finally:
                await asyncio.to_thread(committer.close)

    asyncio.run(asyncio.wait_for(run(), 30))


def contents(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "files").iterdir())


def test_bytes_under_way_are_refused_as_soon_as_they_pass_what_may_be_stored(
    tmp_path: Path,
) -> None:
    async def work(files: FileRepository) -> None:
        first, second = Sender(), Sender()
        under_way = asyncio.create_task(files.add("ada", Name(), first.chunks()))
        await first.send(600)
        other = asyncio.create_task(files.add("ada", Name(), second.chunks()))
        # Neither is stored, and the second has sent all that it will send for now.
        second.push(500)
        with pytest.raises(LimitReachedError):
            await other
        first.end()
        kept = await under_way
        assert contents(tmp_path) == [kept.id]

    with_library(tmp_path, LIMITS, work)


def test_what_is_announced_counts_before_it_comes(tmp_path: Path) -> None:
    async def work(files: FileRepository) -> None:
        first, second = Sender(), Sender()
        under_way = asyncio.create_task(files.add("ada", Name(), first.chunks(), 600))
        await first.send(1)
        with pytest.raises(LimitReachedError):
            await files.add("ada", Name(), second.chunks(), 500)
        first.end()
        await under_way
        # It has one byte after all.
        second.end()
        await files.add("ada", Name(), second.chunks(), 500)

    with_library(tmp_path, LIMITS, work)


def test_uploads_under_way_are_limited_for_each_user_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repository, "MAX_UPLOADS", 2)

    async def work(files: FileRepository) -> None:
        async with AsyncExitStack() as stack:
            senders = [Sender() for _ in range(3)]
            for sender in senders[:2]:
                task = asyncio.create_task(files.add("ada", Name(), sender.chunks()))
                stack.push_async_callback(asyncio.wait_for, task, 10)
                stack.callback(sender.end)
                await sender.send(1)
            with pytest.raises(LimitReachedError, match="in progress"):
                await files.add("ada", Name(), senders[2].chunks())
            senders[2].end()
            await files.add("bob", Name(), senders[2].chunks())

    with_library(tmp_path, LIMITS, work)


def test_as_many_uploads_at_once_as_there_is_room_for_are_all_taken(tmp_path: Path) -> None:
    async def work(files: FileRepository) -> None:
        senders = [Sender() for _ in range(5)]
        tasks = [asyncio.create_task(files.add("ada", Name(), s.chunks())) for s in senders]
        for sender in senders:
            await sender.send(200)
        for sender in senders:
            sender.end()
        assert len({record.id for record in await asyncio.gather(*tasks)}) == 5
        late = Sender()
        with pytest.raises(LimitReachedError):
            await files.add("ada", Name(), late.chunks())

    with_library(tmp_path, LIMITS.model_copy(update={"files": 5}), work)


@pytest.mark.parametrize(("uploads", "size"), [(2, 9999), (99, 20)])
def test_what_was_uploaded_and_deleted_counts_for_a_day(
    uploads: int, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repository, "UPLOADS_PER_DAY", uploads)
    monkeypatch.setattr(repository, "UPLOAD_BYTES_PER_DAY", size)
    now = [1e9]

    async def add(files: FileRepository, owner: str) -> FileRecord:
        sender = Sender()
        sender.push(10)
        sender.end()
        return await files.add(owner, Name(), sender.chunks())

    async def work(files: FileRepository) -> None:
        for _ in range(2):
            await files.delete(await add(files, "ada"))
            now[0] += 3600.0
        with pytest.raises(LimitReachedError, match="within 24 hours"):
            await add(files, "ada")
        await add(files, "bob")
        assert len(contents(tmp_path)) == 1
        # A day after the first of them there is room for one.
        now[0] += 86_400.0 - 3600.0
        await add(files, "ada")
        with pytest.raises(LimitReachedError, match="within 24 hours"):
            await add(files, "ada")

    with_library(tmp_path, LIMITS, work, lambda: now[0])
