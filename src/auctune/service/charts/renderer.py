"""Client of the chart process: charts are rendered outside the event loop, and cached."""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import structlog
from markupsafe import Markup

from auctune.domain import AuctuneError
from auctune.engine.messages.base import Alive
from auctune.engine.runtime.channel import OnMessage
from auctune.engine.runtime.local import AsyncWorker, WorkerProcess
from auctune.service.charts.messages import CHART_MESSAGES, ChartReply, Draw, Drawn, NotDrawn
from auctune.service.fair_queue import FairQueue, current_request

WORKER = "auctune.service.charts.worker"
_MAX_CACHED = 64
_SECONDS = 30.0
_STOPPING = "the service is stopping"

_log = structlog.get_logger(__name__)


class ChartError(AuctuneError):
    """A chart could not be rendered."""


@dataclass(frozen=True, slots=True)
class ChartSpec:
    """A chart to render: its name in `worker.CHARTS`, its data, and its text alternative."""

    chart: str
    data: dict[str, Any]
    text: str


class ChartRenderer:
    """The chart process, started on first use; for one event loop.

    It renders one chart at a time, of the user who has used least. A chart is rendered once for all
    who wait for it, but each waits for a turn of its own: who has many charts waiting holds up
    nobody who wants the same one.

    Its standard error goes to the file `log`; `module` is that of the worker.
    """

    def __init__(self, log: Path | None = None, module: str = WORKER) -> None:
        self._log = log
        self._module = module
        self._cache: OrderedDict[bytes, str] = OrderedDict()
        self._queue = FairQueue("charts", 1)
        self._reply: asyncio.Future[Drawn | NotDrawn] | None = None
        self._process: AsyncWorker | None = None
        self._is_closed = False

    async def draw(self, figure: ChartSpec) -> Markup:
        """Return a chart as HTML, or a sentence if it cannot be rendered; the error is logged."""
        try:
            async with asyncio.timeout(_SECONDS):
                return Markup(await self._get(figure))
        except (ChartError, TimeoutError) as error:
            _log.warning("chart not rendered", chart=figure.chart, reason=str(error))
            return Markup('<p class="empty">The chart could not be drawn now.</p>')

    async def close(self) -> None:
        """End the process; pending charts fail."""
        self._is_closed = True
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            await process.closed()
        self._fail(_STOPPING)

    async def _get(self, figure: ChartSpec) -> str:
        key = orjson.dumps(figure)
        if (html := self._cached(key)) is not None:
            return html
        request = current_request()
        user = (request.user if request is not None else None) or ""
        return await self._queue.complete(user, partial(self._render, key, figure))

    async def _render(self, key: bytes, figure: ChartSpec) -> str:
        # It may have been rendered for another request meanwhile.
        if (html := self._cached(key)) is not None:
            return html
        process = self._running()
        self._reply = asyncio.get_running_loop().create_future()
        process.send(Draw(chart=figure.chart, data=figure.data, text=figure.text))
        reply = await self._reply
        if (request := current_request()) is not None:
            request.use.process_seconds += reply.seconds
        if isinstance(reply, NotDrawn):
            raise ChartError(reply.reason)
        self._cache[key] = reply.html
        while len(self._cache) > _MAX_CACHED:
            self._cache.popitem(last=False)
        return reply.html

    def _cached(self, key: bytes) -> str | None:
        if key in self._cache:
            self._cache.move_to_end(key)
        return self._cache.get(key)

    def _running(self) -> AsyncWorker:
        if self._is_closed:
            raise ChartError(_STOPPING)
        if self._process is None:
            self._process = AsyncWorker(self._start, self._receive, self._end)
        return self._process

    def _start(self, receive: OnMessage) -> WorkerProcess:
        if self._log is not None:
            self._log.parent.mkdir(parents=True, exist_ok=True)
        return WorkerProcess(self._module, None, receive, CHART_MESSAGES, log=self._log)

    def _receive(self, message: ChartReply) -> None:
        if not isinstance(message, Alive):
            assert self._reply is not None
            self._reply.set_result(message)

    def _end(self, why: str) -> None:
        self._process = None
        self._fail(f"the chart process ended: {why}")

    def _fail(self, why: str) -> None:
        if self._reply is not None and not self._reply.done():
            self._reply.set_exception(ChartError(why))
