"""Client of the chart process: charts are rendered outside the event loop, and cached."""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from functools import partial
from itertools import count
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
from auctune.service.request_scope import leave_gate

WORKER = "auctune.service.charts.worker"
_MAX_CACHED = 64
_SECONDS = 30.0

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

    Its standard error goes to the file `log`; `module` is that of the worker.
    """

    def __init__(self, log: Path | None = None, module: str = WORKER) -> None:
        self._log = log
        self._module = module
        self._ids = count(1)
        self._cache: OrderedDict[bytes, str] = OrderedDict()
        self._waiting: dict[int, asyncio.Future[str]] = {}
        self._pending: dict[bytes, asyncio.Future[str]] = {}
        self._process: AsyncWorker | None = None

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
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            await process.closed()
        self._fail("the service is stopping")

    async def _get(self, figure: ChartSpec) -> str:
        key = orjson.dumps(figure)
        cached = self._cache.get(key)
        if cached is not None:
            self._cache.move_to_end(key)
            return cached
        # Requests for the same chart share one rendering, which no cancelled request ends.
        if key not in self._pending:
            self._pending[key] = asyncio.ensure_future(self._render(key, figure))
            self._pending[key].add_done_callback(partial(self._ended, key))
        leave_gate()
        return await asyncio.shield(self._pending[key])

    async def _render(self, key: bytes, figure: ChartSpec) -> str:
        process = self._running()
        number = next(self._ids)
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        process.send(Draw(id=number, chart=figure.chart, data=figure.data, text=figure.text))
        try:
            html = await answer
        finally:
            del self._waiting[number]
        self._cache[key] = html
        while len(self._cache) > _MAX_CACHED:
            self._cache.popitem(last=False)
        return html

    def _running(self) -> AsyncWorker:
        if self._process is None:
            self._process = AsyncWorker(self._start, self._receive, self._end)
        return self._process

    def _start(self, receive: OnMessage) -> WorkerProcess:
        if self._log is not None:
            self._log.parent.mkdir(parents=True, exist_ok=True)
        return WorkerProcess(self._module, None, receive, CHART_MESSAGES, log=self._log)

    def _receive(self, message: ChartReply) -> None:
        if isinstance(message, Alive):
            return
        answer = self._waiting.get(message.request)
        if answer is None or answer.done():
            return
        match message:
            case Drawn(html=html):
                answer.set_result(html)
            case NotDrawn(reason=reason):
                answer.set_exception(ChartError(reason))

    def _end(self, why: str) -> None:
        self._process = None
        self._fail(f"the chart process ended: {why}")

    def _fail(self, why: str) -> None:
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(ChartError(why))

    def _ended(self, key: bytes, drawn: "asyncio.Future[str]") -> None:
        del self._pending[key]
        # Mark an error as retrieved: all requests for the chart may have been cancelled.
        if not drawn.cancelled():
            drawn.exception()
