"""The single-writer actor of a zone, and how it resolves futures of a loop."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from decimal import Decimal

import pytest

from auctune.domain import InputError, Released
from auctune.service.storage.event_log import ZoneEvent
from auctune.service.storage.queries import Effects
from auctune.service.zones.auction.zone import AuctionZone
from auctune.service.zones.core.actor import (
    LoopFuture,
    LoopResolver,
    ZoneActor,
    ZoneUnavailableError,
)
from auctune.service.zones.core.zone import OnDone
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


WAIT = 10.0


class HeldLog(MemoryLog):
    """Says that events are on disk when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[OnDone] = []

    def record(self, happened: Sequence[tuple[ZoneEvent, Effects]], done: OnDone) -> None:
        """Keep, and say so later."""
        super().record(happened, _unheard)
        self.waiting.append(done)


def _unheard(_: Exception | None) -> None:
    return None


def opened(log: MemoryLog, ended: "list[Exception]") -> tuple[MadeUpZone, ZoneActor[AuctionZone]]:
    made = MadeUpZone()
    return made, ZoneActor(made.zone, log, ended.append)


def settled(actor: ZoneActor[AuctionZone]) -> None:
    done: Future[None] = actor.submit(lambda zone: None)
    done.exception(WAIT)


def test_nothing_is_answered_before_it_is_on_disk() -> None:
    log = HeldLog()
    made, actor = opened(log, [])
    first = actor.submit(lambda zone: zone.decide(made.bid("a")))
    second = actor.submit(lambda zone: zone.decide(made.bid("b")))
    settled(actor)
    assert not first.done()
    assert not second.done()
    log.waiting[0](None)
    assert first.result(WAIT).id == "a"
    assert not second.done()
    actor.close()


def test_a_log_that_fails_closes_the_desk_and_is_told_once() -> None:
    log, ended = HeldLog(), list[Exception]()
    made, actor = opened(log, ended)
    answers = [actor.submit(lambda zone, n=n: zone.decide(made.bid(n))) for n in ("a", "b")]  # type: ignore[misc]
    settled(actor)
    lost = OSError("the disk is full")
    for done in log.waiting:
        done(lost)
    for answer in answers:
        with pytest.raises(ZoneUnavailableError, match="try again later"):
            answer.result(WAIT)
    with pytest.raises(ZoneUnavailableError):
        actor.submit(lambda zone: zone.cancel("a")).result(WAIT)
    assert ended == [lost]
    assert actor.failure is lost
    actor.close()


def test_a_bid_that_is_refused_leaves_the_desk_open() -> None:
    ended: list[Exception] = []
    made, actor = opened(MemoryLog(), ended)
    bid = made.bid("a", slots=0)
    with pytest.raises(InputError, match="deadline"):
        actor.submit(lambda zone: zone.decide(bid)).result(WAIT)
    assert actor.submit(lambda zone: zone.decide(made.bid("b"))).result(WAIT).id == "b"
    assert ended == []
    actor.close()


def test_a_command_that_breaks_off_between_mechanism_and_record_closes_it() -> None:
    ended: list[Exception] = []
    made, actor = opened(MemoryLog(), ended)
    assert (
        actor.submit(lambda zone: zone.decide(made.bid("a", "50"))).result(WAIT).status == "queued"
    )

    def break_off(zone: AuctionZone) -> None:
        job = zone.state.jobs["a"]
        zone.apply_to_mechanism(Released(job.task, job.cells_from(0)))
        raise RuntimeError("a mistake of ours")

    with pytest.raises(ZoneUnavailableError, match="try again later"):
        actor.submit(break_off).result(WAIT)
    assert [str(error) for error in ended] == ["a mistake of ours"]
    actor.close()


def test_a_mistake_that_touched_nothing_is_one_request_s_alone() -> None:
    ended: list[Exception] = []
    made, actor = opened(MemoryLog(), ended)

    def fail(_: AuctionZone) -> None:
        raise RuntimeError("a mistake of ours")

    with pytest.raises(RuntimeError):
        actor.submit(fail).result(WAIT)
    assert actor.submit(lambda zone: zone.decide(made.bid("b"))).result(WAIT).id == "b"
    assert ended == []
    actor.close()


def test_an_end_that_is_no_error_closes_the_desk_and_leaves_nobody_waiting() -> None:
    ended: list[Exception] = []
    made, actor = opened(MemoryLog(), ended)

    def leave(_: AuctionZone) -> None:
        raise SystemExit(3)

    def come_later(zone: AuctionZone) -> None:
        zone.decide(made.bid("a"))

    answers = [actor.submit(leave), actor.submit(come_later)]
    for answer in answers:
        with pytest.raises(ZoneUnavailableError, match="try again later"):
            answer.result(WAIT)
    assert [str(error) for error in ended] == ["SystemExit(3)"]
    actor.close()


def test_a_mechanism_that_is_ahead_without_an_error_closes_the_desk() -> None:
    ended: list[Exception] = []
    made, actor = opened(MemoryLog(), ended)
    actor.submit(lambda zone: zone.decide(made.bid("a", "50"))).result(WAIT)

    def forget_to_note(zone: AuctionZone) -> None:
        job = zone.state.jobs["a"]
        zone.apply_to_mechanism(Released(job.task, job.cells_from(0)))

    with pytest.raises(ZoneUnavailableError):
        actor.submit(forget_to_note).result(WAIT)
    assert actor.failure is ended[0]
    actor.close()


def test_an_alarm_that_fails_leaves_nobody_waiting() -> None:
    def deaf(_: Exception) -> None:
        raise RuntimeError("nobody is there")

    class LostLog(MemoryLog):
        def record(self, happened: Sequence[tuple[ZoneEvent, Effects]], done: OnDone) -> None:
            raise OSError("the disk is full")

    made = MadeUpZone()
    actor = ZoneActor(made.zone, LostLog(), deaf)
    for name in ("a", "b"):
        with pytest.raises(ZoneUnavailableError, match="try again later"):
            actor.submit(lambda zone, name=name: zone.decide(made.bid(name))).result(WAIT)  # type: ignore[misc]
    actor.close()


def test_a_budget_s_rejection_is_on_record_and_replays() -> None:
    made = MadeUpZone()
    bid = made.bid("a", "50")
    row = made.zone.decide(replace(bid, remaining_budget=lambda: Decimal("0.0001")))
    made.keep()
    assert row.body["decision"]["reason"] == "over_budget"
    state = made.folded().state
    assert state == made.zone.state
