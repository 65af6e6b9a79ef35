"""Charts come from a process whose end, or mistake, costs a page no more than that chart."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from auctune.service.charts.renderer import ChartRenderer, ChartSpec

ODD = "support.odd_drawing"
MISSING = "could not be drawn now"


def figure(chart: str, number: int = 0) -> ChartSpec:
    return ChartSpec(chart, {"number": number}, "in words")


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
