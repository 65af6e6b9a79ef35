"""Charts come from a process whose end, or mistake, costs a page no more than that chart."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from markupsafe import Markup

from auctune.service.charts.renderer import ChartRenderer, ChartSpec
from auctune.service.fair_queue import ReadThreads, RequestScope, request_scope
from support.odd_drawing import SECONDS

ODD = "support.odd_drawing"
MISSING = "could not be drawn now"


def figure(chart: str, number: int = 0) -> ChartSpec:
    return ChartSpec(chart, {"number": number}, "in words")


class Held:
    """A chart of ada's that is being drawn until `release`, and what waits behind it."""

    def __init__(self, charts: ChartRenderer, folder: Path) -> None:
        self._charts, self._pipe = charts, folder / "pipe"
        os.mkfifo(self._pipe)
        self.first = self.draw("ada", ChartSpec("hold", {"pipe": str(self._pipe)}, ""))

    def draw(self, user: str, figure: ChartSpec) -> asyncio.Task[Markup]:
        with request_scope(RequestScope(ReadThreads(), user=user)):
            return asyncio.create_task(self._charts.draw(figure))

    async def release(self) -> None:
        await asyncio.to_thread(self._pipe.write_text, "")


async def settled() -> None:
    """Everything that can go on has."""
    for _ in range(20):
        await asyncio.sleep(0)


def run(work: Callable[[ChartRenderer], Awaitable[None]]) -> None:
    async def whole() -> None:
        charts = ChartRenderer(module=ODD)
        try:
            await work(charts)
        finally:
            await charts.close()

    asyncio.run(whole())


def test_a_chart_is_drawn_once_however_many_ask() -> None:
    async def work(charts: ChartRenderer) -> None:
        many = await asyncio.gather(*(charts.draw(figure("plan")) for _ in range(5)))
        assert set(many) == {"<p>plan 1</p>"}
        assert await charts.draw(figure("plan")) == "<p>plan 1</p>"
        assert await charts.draw(figure("plan", 1)) == "<p>plan 2</p>"

    run(work)


def test_a_chart_that_fails_is_words_and_others_go_on() -> None:
    async def work(charts: ChartRenderer) -> None:
        failed, drawn = await asyncio.gather(
            charts.draw(figure("fail")), charts.draw(figure("plan"))
        )
        assert MISSING in failed
        assert drawn == "<p>plan 1</p>"
        # A failure is not kept.
        assert MISSING in await charts.draw(figure("fail"))

    run(work)


def test_a_user_waits_for_one_chart_of_another_at_most(tmp_path: Path) -> None:
    async def work(charts: ChartRenderer) -> None:
        held = Held(charts, tmp_path)
        others = [held.draw("ada", figure("plan", number)) for number in range(3)]
        await settled()
        # Also for one that another user wants as well.
        mine = held.draw("bob", figure("plan", 2))
        await settled()
        await held.release()
        assert await mine == "<p>plan 2</p>"
        assert await asyncio.gather(*others) == [f"<p>plan {n}</p>" for n in (3, 4, 2)]

    run(work)


def test_a_chart_that_nobody_waits_for_any_more_is_not_drawn(tmp_path: Path) -> None:
    async def work(charts: ChartRenderer) -> None:
        held = Held(charts, tmp_path)
        left = [held.draw("ada", figure("plan")) for _ in range(2)]
        last = held.draw("ada", figure("plan", 1))
        await settled()
        # What is being drawn goes on, and nothing else is drawn meanwhile.
        for one in (held.first, *left):
            one.cancel()
        await asyncio.wait((held.first, *left))
        assert not charts._queue.places.is_free("bob")
        await held.release()
        assert await last == "<p>plan 2</p>"

    run(work)


def test_what_the_process_used_counts_for_the_request_that_it_drew_for() -> None:
    async def work(charts: ChartRenderer) -> None:
        scopes = [RequestScope(ReadThreads(), user=user) for user in ("ada", "bob")]
        for scope in scopes:
            with request_scope(scope):
                await charts.draw(figure("plan"))
        assert [one.use.process_seconds for one in scopes] == [SECONDS, 0.0]
        with request_scope(scopes[1]):
            await charts.draw(figure("fail"))
        assert scopes[1].use.process_seconds == SECONDS

    run(work)


def test_no_process_is_started_for_a_chart_that_waits_when_the_service_stops(
    tmp_path: Path,
) -> None:
    async def work(charts: ChartRenderer) -> None:
        held = Held(charts, tmp_path)
        waits = held.draw("ada", figure("plan"))
        await settled()
        await charts.close()
        assert all(MISSING in one for one in await asyncio.gather(held.first, waits))
        assert charts._process is None

    run(work)


def test_a_process_that_ended_is_started_again() -> None:
    async def work(charts: ChartRenderer) -> None:
        assert MISSING in await charts.draw(figure("end"))
        assert await charts.draw(figure("plan")) == "<p>plan 1</p>"

    run(work)


def test_a_process_that_cannot_be_started_is_words(tmp_path: Path) -> None:
    async def work() -> None:
        (tmp_path / "file").write_text("")
        charts = ChartRenderer(log=tmp_path / "file" / "charts.log", module=ODD)
        assert MISSING in await charts.draw(figure("plan"))
        await charts.close()

    asyncio.run(work())
