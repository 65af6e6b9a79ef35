"""Charts, drawn by a process of their own: no request waits for one that is not its own.

What was drawn is kept for a while: a page that is looked at by many is drawn once.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import orjson
import structlog
from markupsafe import Markup

from auctune.domain import AuctuneError
from auctune.run.child import ChildProcess, Hear, Message

WORKER = ("-m", "auctune.service.page.chart_worker")
_KEPT = 64
_SECONDS = 30.0

_log = structlog.get_logger(__name__)


class ChartError(AuctuneError):
    """A chart could not be drawn."""


@dataclass(frozen=True, slots=True)
class ChartSpec:
    """A chart that is wanted.

    Attributes:
        chart: which one: a name of the worker's table.
        data: what it shows; plain values.
        text: what it shows, in words.
    """

    chart: str
    data: dict[str, Any]
    text: str


class ChartRenderer:
    """The process that draws, started when it is first needed; on one loop.

    Args:
        log: file for what it writes on standard error; none: nobody keeps it.
        program: arguments for the interpreter.
    """

    def __init__(self, log: Path | None = None, program: Sequence[str] = WORKER) -> None:
        self._log = log
        self._program = program
        self._ids = count(1)
        self._kept: OrderedDict[bytes, str] = OrderedDict()
        self._waiting: dict[int, asyncio.Future[str]] = {}
        self._begun: dict[bytes, asyncio.Future[str]] = {}
        self._process: ChildProcess | None = None
        self._starting = asyncio.Lock()

    async def draw(self, figure: ChartSpec) -> Markup:
        """A chart as HTML; words where it could not be drawn, whose cause is logged."""
        try:
            async with asyncio.timeout(_SECONDS):
                return Markup(await self._drawn(figure))
        except (ChartError, TimeoutError) as error:
            _log.warning("a chart was not drawn", chart=figure.chart, reason=str(error))
            return Markup('<p class="empty">The chart could not be drawn now.</p>')

    async def close(self) -> None:
        """End the process; what was asked of it fails."""
        process, self._process = self._process, None
        if process is not None:
            await asyncio.to_thread(process.kill)
        self._fail("the page is closed")

    async def _drawn(self, figure: ChartSpec) -> str:
        wanted = {"chart": figure.chart, "data": figure.data, "text": figure.text}
        key = orjson.dumps(wanted)
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
            return found
        # Whoever wants the same meanwhile waits for it, and nobody who leaves ends it.
        if key not in self._begun:
            self._begun[key] = asyncio.ensure_future(self._ask(key, wanted))
            self._begun[key].add_done_callback(partial(self._ended, key))
        return await asyncio.shield(self._begun[key])

    async def _ask(self, key: bytes, wanted: Message) -> str:
        process = await self._running()
        number = next(self._ids)
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        process.tell({"do": "draw", "id": number, **wanted})
        try:
            drawn: str = await answer
        finally:
            del self._waiting[number]
        self._kept[key] = drawn
        while len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return drawn

    async def _running(self) -> ChildProcess:
        async with self._starting:
            if self._process is None:
                loop = asyncio.get_running_loop()

                def hear(message: Message | None) -> None:
                    if not loop.is_closed():
                        loop.call_soon_threadsafe(self._hear, message)

                try:
                    self._process = await asyncio.to_thread(self._start, hear)
                except OSError as error:
                    raise ChartError(f"its process cannot be started ({error.strerror})") from None
            return self._process

    def _start(self, hear: Hear) -> ChildProcess:
        if self._log is not None:
            self._log.parent.mkdir(parents=True, exist_ok=True)
        return ChildProcess(self._program, None, hear, log=self._log)

    def _hear(self, message: Message | None) -> None:
        if message is None:
            process, self._process = self._process, None
            if process is not None:
                self._fail(f"its process ended: {process.ending()}")
                process.kill()
        elif message["kind"] != "alive":
            answer = self._waiting.get(message["id"])
            if answer is None or answer.done():
                return
            if message["kind"] == "drawn":
                answer.set_result(message["html"])
            else:
                answer.set_exception(ChartError(message["reason"]))

    def _fail(self, why: str) -> None:
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(ChartError(why))

    def _ended(self, key: bytes, drawn: "asyncio.Future[str]") -> None:
        del self._begun[key]
        # Nobody may be left who would ask for it.
        if not drawn.cancelled():
            drawn.exception()
