"""Answers find their way to the loop that waits for them."""

import asyncio

import pytest

from auctune.service.zones.core.actor import LoopFuture, LoopResolver, ZoneActor
from support.zones import MadeUpZone, MemoryLog


def test_what_is_answered_together_wakes_the_loop_once() -> None:
    async def run() -> tuple[list[int], int]:
        loop = asyncio.get_running_loop()
        woken = 0
        post = LoopResolver(loop)
        handing_out = post._drain

        def counted() -> None:
            nonlocal woken
            woken += 1
            handing_out()

        post._drain = counted  # type: ignore[method-assign]
        answers = [LoopFuture[int](post) for _ in range(5)]
        # The loop cannot hand anything out before it is its turn.
        _give(answers)
        first = [await answer.future for answer in answers]
        last = LoopFuture[int](post)
        await asyncio.to_thread(_give, [last])
        return [*first, await last.future], woken

    assert asyncio.run(run()) == ([0, 1, 2, 3, 4, 0], 2)


def _give(answers: "list[LoopFuture[int]]") -> None:
    for number, answer in enumerate(answers):
        answer.set_result(number)


def test_an_error_is_raised_where_the_answer_is_awaited() -> None:
    async def run() -> None:
        answer: LoopFuture[int] = LoopFuture(LoopResolver(asyncio.get_running_loop()))
        await asyncio.to_thread(answer.set_exception, ValueError("no"))
        await answer.future

    with pytest.raises(ValueError, match="no"):
        asyncio.run(run())


def test_answers_that_nobody_waits_for_are_dropped() -> None:
    async def run() -> LoopResolver:
        post = LoopResolver(asyncio.get_running_loop())
        gone, awaited = LoopFuture[int](post), LoopFuture[int](post)
        gone.future.cancel()
        assert not gone.set_running_or_notify_cancel()
        assert awaited.set_running_or_notify_cancel()
        gone.set_result(1)
        awaited.set_result(2)
        assert await awaited.future == 2
        return post

    post = asyncio.run(run())
    # The loop is closed: there is nobody to be told.
    late = post.loop.create_future()
    post.resolve(late, 3, None)
    assert not late.done()


def test_a_desk_answers_on_the_loop_that_asks() -> None:
    log = MemoryLog()
    made = MadeUpZone()
    actor = ZoneActor(made.zone, log)

    async def ask() -> str:
        row = await actor.call(lambda zone: zone.decide(made.bid("a")))
        return row.id

    async def ask_again() -> bool:
        return await actor.call(lambda zone: zone.cancel("nobody"))

    assert asyncio.run(ask()) == "a"
    assert asyncio.run(ask_again()) is False
    actor.close()
