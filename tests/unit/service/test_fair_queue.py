"""Places that users share: whoever has used least is next, and what ends early holds up nobody."""

import asyncio
import threading
from collections.abc import Coroutine
from dataclasses import fields
from functools import partial
from typing import Any

import pytest

from auctune.domain.fair_places import FairPlaces
from auctune.service.accounts.limits import LimitReachedError
from auctune.service.fair_queue import (
    FairQueue,
    Place,
    ReadThreads,
    RequestScope,
    Use,
    in_place,
    request_scope,
)


class Holders:
    """Work that holds places until it is let go, on a clock of its own."""

    def __init__(self, num_places: int, max_waiting: int = 10) -> None:
        self.time = 0.0
        self.queue = FairQueue("quotes", num_places, max_waiting, now=lambda: self.time)
        self.running: dict[str, Place] = {}
        self._ends: dict[str, asyncio.Event] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def start(self, *names: str, is_limited: bool = True) -> None:
        """Begin work of the users that are the first letters of names."""
        for name in names:
            self._ends[name] = asyncio.Event()
            self._tasks[name] = asyncio.create_task(self._hold(name, is_limited))
            await settled()
            if self._tasks[name].done():
                await self._tasks[name]

    async def end(self, name: str, cost: float = 1.0) -> None:
        self.time += cost
        self._ends[name].set()
        await self._tasks[name]
        await settled()

    async def cancel(self, name: str) -> None:
        self._tasks[name].cancel()
        await asyncio.wait([self._tasks[name]])
        await settled()

    async def _hold(self, name: str, is_limited: bool) -> None:
        async with self.queue.place(name[0], is_limited=is_limited) as place:
            self.running[name] = place
            try:
                await self._ends[name].wait()
            finally:
                del self.running[name]


async def settled() -> None:
    """Everything that can go on has."""
    for _ in range(20):
        await asyncio.sleep(0)


def wait_for(event: threading.Event) -> None:
    """Take a thread until the event."""
    assert event.wait(60)


def play(game: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(game, 60))


def test_users_take_turns_however_much_one_asks_for() -> None:
    async def game() -> None:
        holders = Holders(1)
        await holders.start("a0", "a1", "a2", "a3", "b0", "b1", "c0")
        order = []
        while holders.running:
            (name,) = holders.running
            order.append(name)
            await holders.end(name)
        assert order[:3] == ["a0", "b0", "c0"]
        assert order[3:] == ["a1", "b1", "a2", "a3"]

    play(game())


def test_whoever_costs_less_goes_more_often() -> None:
    async def game() -> None:
        holders = Holders(1)
        await holders.start(*(f"{user}{number}" for user in "ab" for number in range(9)))
        order = ""
        for _ in range(10):
            (name,) = holders.running
            order += name[0]
            await holders.end(name, 4.0 if name[0] == "a" else 1.0)
        # Four pieces of b cost what one of a does.
        assert order.count("a") == 2

    play(game())


def test_one_of_several_places_is_there_for_who_holds_none() -> None:
    async def game() -> None:
        holders = Holders(3)
        await holders.start("a0", "a1", "a2", "a3")
        assert set(holders.running) == {"a0", "a1"}
        await holders.start("b0", "b1")
        assert set(holders.running) == {"a0", "a1", "b0"}
        await holders.end("b0")
        assert set(holders.running) == {"a0", "a1", "b1"}
        await holders.end("a0")
        assert set(holders.running) == {"a1", "b1"}
        await holders.start("c0")
        assert set(holders.running) == {"a1", "b1", "c0"}
        await holders.end("c0")
        await holders.end("b1")
        assert set(holders.running) == {"a1", "a2"}

    play(game())


def test_a_user_has_few_of_the_places_for_a_while_after_another_one_had_any() -> None:
    async def game() -> None:
        now = 0.0
        places = FairPlaces(8, max_shared=2, now=lambda: now)

        async def held(user: str) -> int:
            # As many as there are at once.
            taken = 0
            while places.is_free(user):
                await places.take(user)
                taken += 1
            return taken

        assert await held("a") == 8
        for _ in range(8):
            places.free("a")
        assert await held("b") == 2
        assert await held("a") == 2
        waiting = asyncio.create_task(places.take("a"))
        await settled()
        now = 1.5
        places.free("b")
        await settled()
        assert waiting.done()
        assert await held("a") == 4
        # Who came last does not share with itself.
        places.free("b")
        assert await held("a") == 1

    play(game())


def test_what_is_too_much_is_refused_with_the_time_until_there_is_room() -> None:
    async def game() -> None:
        holders = Holders(1, max_waiting=2)
        await holders.start("z0")
        await holders.end("z0", 100.0)
        await holders.start("a0", "a1", "a2", "b0")
        with pytest.raises(LimitReachedError, match="2 quotes of yours are waiting") as refused:
            await holders.start("a3")
        # Two users wait, for the mean of what was held so far.
        assert refused.value.retry_after == pytest.approx(2 * 5.0)
        # What belongs to work that has begun is not refused.
        await holders.start("a4", is_limited=False)
        await holders.start("b1")

    play(game())


def test_whoever_stops_waiting_or_is_cancelled_holds_up_nobody() -> None:
    async def game() -> None:
        holders = Holders(1)
        await holders.start("a0", "b0", "c0", "d0")
        await holders.cancel("b0")
        await holders.cancel("a0")
        assert list(holders.running) == ["c0"]
        await holders.end("c0")
        await holders.end("d0")
        await holders.start("a1")
        assert list(holders.running) == ["a1"]

    play(game())


def test_a_place_that_is_freed_before_its_block_ends_goes_to_the_next_at_once() -> None:
    async def game() -> None:
        holders = Holders(1)
        await holders.start("a0", "b0")
        holders.running["a0"].free()
        holders.running["a0"].free()
        await settled()
        assert set(holders.running) == {"a0", "b0"}
        await holders.start("c0")
        assert set(holders.running) == {"a0", "b0"}

    play(game())


def test_whoever_goes_on_without_its_place_gathers_no_claim() -> None:
    async def game() -> None:
        holders = Holders(1)
        await holders.start("s0")
        holders.running["s0"].free()
        for number in range(50):
            await holders.start(f"a{number}")
            await holders.end(f"a{number}")
        # "s" has used nothing for long. It has a credit, of less than a piece, and takes turns with
        # "a" then.
        await holders.start("a50", "a51", "a52", "a53", "s1", "s2", "s3", "s4")
        order = ""
        while names := [name for name in holders.running if name != "s0"]:
            order += names[0][0]
            await holders.end(names[0])
        assert order == "assasasa"

    play(game())


def test_a_request_holds_one_place_at_a_time() -> None:
    async def game() -> None:
        gate, reads = FairQueue("requests", 1, 10), FairQueue("reads", 1, 10)
        request = RequestScope(ReadThreads(), user="a")
        async with gate.place("a") as request.gate:
            with request_scope(request):
                assert await reads.run("a", lambda: 7) == 7
            # Others are at work though this block has not ended.
            async with asyncio.timeout(60), gate.place("b"):
                pass

    play(game())


def test_work_in_threads_goes_on_and_keeps_its_place_when_its_caller_is_cancelled() -> None:
    async def game() -> None:
        queue, may_end = FairQueue("reads", 1, 10), threading.Event()
        begun = threading.Event()

        def work() -> None:
            begun.set()
            wait_for(may_end)
            raise ValueError("nobody is told")

        first = asyncio.create_task(queue.run("a", work))
        await asyncio.to_thread(begun.wait, 60)
        second = asyncio.create_task(queue.run("b", lambda: 2))
        third = asyncio.create_task(queue.run("b", lambda: 3))
        await settled()
        first.cancel()
        second.cancel()
        await settled()
        assert first.cancelled()
        assert not third.done()
        may_end.set()
        assert await third == 3
        assert second.cancelled()

    play(game())


def test_work_that_takes_long_holds_up_others_no_longer_but_one_at_a_time() -> None:
    async def game() -> None:
        queue = FairQueue("reads", 1, patience=0.01)
        may_end = [threading.Event() for _ in range(2)]

        first = asyncio.create_task(queue.run("a", partial(wait_for, may_end[0])))
        # Begins although the first goes on.
        second = asyncio.create_task(queue.run("b", partial(wait_for, may_end[1])))
        third = asyncio.create_task(queue.run("c", lambda: 3))
        while queue.places.num_users_waiting > 1:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.05)
        assert not third.done()
        may_end[1].set()
        assert await third == 3
        await second
        # All of its time counts, also that without its place.
        may_end[0].set()
        await first
        for user in "ab":
            queue.places.share.enter(user)
        assert queue.places.share.next("ab") == "b"

    play(game())


def test_who_takes_long_has_one_of_both_threads_and_the_next_long_one_is_overtaken_too() -> None:
    async def game() -> None:
        queue = FairQueue("reads", 1, patience=0.01)
        may_end = [threading.Event() for _ in range(2)]

        tasks = [asyncio.create_task(queue.run("a", partial(wait_for, one))) for one in may_end]
        # Another one of "a" waits, others do not.
        assert await asyncio.wait_for(queue.run("b", lambda: "b"), 60) == "b"
        assert queue.places.num_waiting("a") == 1
        may_end[0].set()
        await tasks[0]
        assert await asyncio.wait_for(queue.run("b", lambda: "b"), 60) == "b"
        may_end[1].set()
        await tasks[1]
        assert await queue.run("a", lambda: "a") == "a"
        assert queue.places._num_free == 1

    play(game())


def test_all_that_requests_have_used_is_added_up() -> None:
    total, names = Use(), [one.name for one in fields(Use)]
    for _ in range(2):
        total.add(Use(*range(1, len(names) + 1)))
    assert [getattr(total, name) for name in names] == [2 * (n + 1) for n in range(len(names))]


def test_an_error_of_work_is_its_caller_s_and_the_next_is_done() -> None:
    async def game() -> None:
        queue = FairQueue("reads", 1, 10)

        def failing() -> None:
            raise ValueError("no")

        failed = asyncio.create_task(queue.run("a", failing))
        done = asyncio.create_task(queue.run("b", lambda: 1))
        with pytest.raises(ValueError, match="no"):
            await failed
        assert await done == 1

    play(game())


def test_no_write_waits_for_the_estimates_of_many_zones() -> None:
    async def game() -> None:
        ends, num_zones = threading.Event(), 40
        estimates = [asyncio.create_task(in_place(wait_for, ends)) for _ in range(num_zones)]
        await settled()
        try:
            assert await FairQueue("writes", 1).run("b", lambda: "written") == "written"
        finally:
            ends.set()
            await asyncio.gather(*estimates)

    play(game())
