"""Work that takes long: whoever asks for much of it delays nobody else by more than one piece."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from auctune.service.accounts.limits import FairQueue, QuotaExceededError


class Work:
    """Pieces that are done in the order in which they are begun, once the first may end."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.may_end = threading.Event()

    def piece(self, name: str) -> Callable[[], str]:
        def work() -> str:
            self.begun.append(name)
            assert self.may_end.wait(60)
            return name

        return work


async def settled() -> None:
    """Everything that can go on has."""
    for _ in range(20):
        await asyncio.sleep(0)


async def ask(turns: FairQueue, work: Work, name: str) -> str:
    return await turns.run(name[0], work.piece(name))


def test_users_take_turns_however_many_pieces_one_asks_for() -> None:
    async def play() -> None:
        turns, work = FairQueue("estimate", 3), Work()
        names = ["a0", "a1", "a2", "a3", "b0", "b1", "c0"]
        tasks = []
        for name in names:
            tasks.append(asyncio.create_task(ask(turns, work, name)))
            await settled()
        work.may_end.set()
        assert await asyncio.gather(*tasks) == names
        assert work.begun == ["a0", "b0", "c0", "a1", "b1", "a2", "a3"]

    asyncio.run(play())


def test_what_is_too_much_is_refused_at_once_and_what_must_not_be_is_not() -> None:
    async def play() -> None:
        turns, work = FairQueue("estimate", 1, max_users=2), Work()
        tasks = []
        for name in ("a0", "a1", "b0"):
            tasks.append(asyncio.create_task(ask(turns, work, name)))
            await settled()
        with pytest.raises(QuotaExceededError, match="another estimate of yours is in progress"):
            await ask(turns, work, "a2")
        with pytest.raises(
            QuotaExceededError, match="too many users are waiting for their estimate"
        ):
            await ask(turns, work, "c0")
        last = asyncio.create_task(turns.run("a", work.piece("a2"), is_limited=False))
        await settled()
        work.may_end.set()
        assert await asyncio.gather(*tasks, last) == ["a0", "a1", "b0", "a2"]
        # Once all is done there is room again.
        assert await ask(turns, work, "a3") == "a3"

    asyncio.run(play())


def test_whoever_stops_waiting_or_fails_holds_up_nobody() -> None:
    async def play() -> None:
        turns, work = FairQueue("estimate", 2), Work()

        def failing() -> None:
            work.piece("failed")()
            raise ValueError("no")

        tasks = [asyncio.create_task(ask(turns, work, "a0"))]
        await settled()
        tasks += [asyncio.create_task(ask(turns, work, name)) for name in ("b0", "c0")]
        await settled()
        failed = asyncio.create_task(turns.run("d", failing))
        await settled()
        # One whose work is under way, and one that waits.
        tasks[0].cancel()
        tasks[1].cancel()
        await settled()
        work.may_end.set()
        assert await tasks[2] == "c0"
        with pytest.raises(ValueError, match="no"):
            await failed
        assert work.begun == ["a0", "c0", "failed"]
        assert tasks[0].cancelled()
        assert tasks[1].cancelled()

    asyncio.run(play())
