"""Slots that users share."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from auctune.service.accounts.limits import FairSlots, QuotaExceededError


class Holders:
    """Requests that hold slots until they are let go."""

    def __init__(self, slots: FairSlots) -> None:
        self.slots = slots
        self.running: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def start(self, name: str, count: int = 1) -> None:
        """A request of the user that is the first letter of its name."""

        async def hold() -> None:
            async with self.slots.acquire(name[0], count):
                self.running.append(name)
                await self._ends[name].wait()
                self.running.remove(name)

        self._ends[name] = asyncio.Event()
        self._tasks[name] = asyncio.create_task(hold())
        await settled()
        if self._tasks[name].done():
            await self._tasks[name]

    async def end(self, name: str) -> None:
        assert name in self.running
        self._ends[name].set()
        await self._tasks[name]
        await settled()

    async def cancel(self, name: str) -> None:
        self._tasks[name].cancel()
        await asyncio.wait([self._tasks[name]])
        await settled()


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def play(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(scenario)


def test_a_free_slot_goes_to_the_user_with_the_fewest() -> None:
    async def scenario() -> None:
        holders = Holders(FairSlots("requests", 2, 10))
        for name in ("a1", "a2", "a3", "a4", "b1", "c1"):
            await holders.start(name)
        assert holders.running == ["a1", "a2"]
        await holders.end("a1")
        assert holders.running == ["a2", "b1"]
        await holders.end("a2")
        # Both have none, and the third of a has waited longer.
        assert holders.running == ["b1", "a3"]
        await holders.end("b1")
        assert holders.running == ["a3", "c1"]
        await holders.end("c1")
        assert holders.running == ["a3", "a4"]
        for name in ("a3", "a4"):
            await holders.end(name)

    play(scenario())


def test_one_that_needs_many_slots_is_not_overtaken_for_good() -> None:
    async def scenario() -> None:
        holders = Holders(FairSlots("requests", 3, 10))
        await holders.start("a1", 2)
        await holders.start("b1", 99)
        await holders.start("a2")
        # One slot is free, which b waits for.
        assert holders.running == ["a1"]
        await holders.end("a1")
        assert holders.running == ["b1"]
        await holders.end("b1")
        assert holders.running == ["a2"]
        await holders.end("a2")

    play(scenario())


def test_too_many_requests_of_a_user_are_refused() -> None:
    async def scenario() -> None:
        holders = Holders(FairSlots("requests", 1, 2))
        for name in ("a1", "a2", "a3"):
            await holders.start(name)
        with pytest.raises(QuotaExceededError, match="2 requests of yours are waiting"):
            await holders.start("a4")
        await holders.start("b1")
        # Users take turns.
        for name in ("a1", "a2", "b1", "a3"):
            assert holders.running == [name]
            await holders.end(name)

    play(scenario())


def test_cancelled_requests_give_back_what_they_hold_or_wait_for() -> None:
    async def scenario() -> None:
        holders = Holders(FairSlots("requests", 2, 10))
        await holders.start("a1")
        await holders.start("b1", 2)
        await holders.start("c1")
        assert holders.running == ["a1"]
        await holders.cancel("b1")
        assert holders.running == ["a1", "c1"]
        await holders.cancel("a1")
        await holders.start("b2")
        assert "b2" in holders.running
        for name in ("c1", "b2"):
            await holders.end(name)
        await holders.start("d1", 2)
        assert "d1" in holders.running
        await holders.end("d1")

    play(scenario())
