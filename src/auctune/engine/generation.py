"""Answers and scores of a base and its adapters: requests, replies, and the process behind them.

One process holds one base, and as many adapters as requests name. Requests run together, whatever
their adapters are: see `auctune.train.generation`.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any
from weakref import WeakSet

from pydantic import TypeAdapter

from auctune.domain import AuctuneError
from auctune.domain.generation import AnswerEnd, Piece, Request, RequestSize, RowsScored
from auctune.engine.messages.base import Failed
from auctune.engine.messages.generation import (
    GENERATOR_MESSAGES,
    Cancel,
    Generate,
    Generated,
    GeneratedPiece,
    GeneratorReply,
    MeasureSize,
    SizeMeasured,
)
from auctune.engine.runtime.channel import OnMessage
from auctune.engine.runtime.local import AsyncWorker, WorkerProcess

_WORKER = "auctune.engine.workers.generation"
_VLLM_WORKER = "auctune.engine.workers.vllm"


class InferenceError(AuctuneError):
    """The process of a model ended, or the adapter does not fit its base."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmSettings:
    """The vLLM that computes answers.

    Attributes:
        python: interpreter of its environment.
        base_digest: of the base, as of `Base`.
        max_rank: of adapters.
        max_adapters: that answers use at once.
    """

    python: Path
    base_digest: str
    max_rank: int = 64
    max_adapters: int = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratorSettings:
    """The base of a process that generates answers, and its limits.

    Attributes:
        base: its name.
        cache: folder of bases that are built here.
        device, dtype: where and how it is computed.
        threads: of torch on a CPU; None: as many as torch chooses.
        niceness: of the process, 0 to 19: the larger, the more others come first on the CPU.
        sold_share: of the time, that it works on a CPU while something trains on this machine.
        max_batch: answers that are generated at once; the others wait.
        max_cache_bytes: of the keys and values of these answers.
        max_adapter_bytes: of the weights of adapters that are kept for later requests.
        checks_base: whether adapters must have been trained on the base in this number type.
        vllm: what computes; None: auctune's own engine (`auctune.train.generation`).
    """

    base: str
    cache: Path
    device: str = "cpu"
    dtype: str = "float32"
    threads: int | None = None
    niceness: int = 0
    sold_share: float = 1.0
    max_batch: int = 16
    max_cache_bytes: int = 2 * 1024**3
    max_adapter_bytes: int = 1024**3
    checks_base: bool = True
    vllm: VllmSettings | None = None


SETTINGS = TypeAdapter(GeneratorSettings)

IDLE_SECONDS = 600.0
"""Without a request, after which a process ends and frees its memory."""


def start_generator(
    settings: GeneratorSettings,
    on_message: OnMessage,
    *,
    lock: int | None = None,
    log: Path | None = None,
) -> WorkerProcess:
    """Start a process that generates answers; arguments as of `WorkerProcess`."""
    argument = SETTINGS.dump_python(settings, mode="json")
    device = settings.device
    return WorkerProcess(
        _WORKER if settings.vllm is None else _VLLM_WORKER,
        argument,
        on_message,
        GENERATOR_MESSAGES,
        lock=lock,
        log=log,
        device=device,
        fork=True,
    )


class Generator:
    """The process that generates answers on one base, for one event loop.

    It starts with the first request, and again with the next one after it has ended.

    Args:
        settings: of the process.
        idle_seconds: without a request, after which the process is ended.
        lock: descriptor of a lock that the process holds too, or None.
        log: file to which its standard error is appended; None: not kept.
    """

    def __init__(
        self,
        settings: GeneratorSettings,
        *,
        idle_seconds: float = IDLE_SECONDS,
        lock: int | None = None,
        log: Path | None = None,
    ) -> None:
        self._settings = settings
        self._idle_seconds = idle_seconds
        self._lock = lock
        self._log = log
        self._process: AsyncWorker | None = None
        self._ids = count(1)
        self._requests: dict[str, asyncio.Queue[GeneratedPiece | SizeMeasured | AuctuneError]] = {}
        self._stopped = ""
        self._idle: asyncio.TimerHandle | None = None
        self._endings: WeakSet[AsyncWorker] = WeakSet()

    @property
    def pid(self) -> int | None:
        """Process id, None while there is no process."""
        return None if self._process is None else self._process.pid

    async def generate(
        self,
        request: Request,
        user: str = "",
        on_seconds: Callable[[float], None] = lambda _seconds: None,
        *,
        weight: float = 1.0,
    ) -> AsyncGenerator[Piece]:
        """Yield the pieces of a request's reply; closing the iterator cancels the request.

        Args:
            request: what to reply to.
            user: any name; users share the process.
            on_seconds: called with the seconds of the process that the request has used.
            weight: of the user: with twice the weight one is served twice as many tokens.

        Raises:
            InputError: for a prompt, parameters, rows or an adapter that cannot be used; before
                any `AnswerPiece` or `RowScored`.
            InferenceError: if the process ends, or cannot be started.
        """
        message = Generate(id=self._next_id(), user=user, weight=weight, request=request)
        async with aclosing(self._replies(message, request.num_replies)) as replies:
            async for reply in replies:
                if reply.seconds:
                    on_seconds(reply.seconds)
                yield reply.piece

    async def measure(
        self, request: Request, user: str = "", *, weight: float = 1.0
    ) -> RequestSize:
        """Return how many tokens a request may take; arguments and errors as of `generate`."""
        message = MeasureSize(id=self._next_id(), user=user, weight=weight, request=request)
        async with aclosing(self._replies(message, 1)) as replies:
            measured: SizeMeasured = await anext(replies)
        return measured.size

    def _next_id(self) -> str:
        return str(next(self._ids))

    async def _replies(self, message: Generate | MeasureSize, num_open: int) -> AsyncGenerator[Any]:
        """Send a request and yield its replies until so many are complete."""
        inbox = self._requests[message.id] = asyncio.Queue()
        try:
            self._started().send(message)
            while num_open:
                found = await inbox.get()
                if isinstance(found, AuctuneError):
                    num_open = 0
                    raise found
                last = found.piece if isinstance(found, GeneratedPiece) else found
                num_open -= isinstance(last, AnswerEnd | RowsScored | SizeMeasured)
                yield found
        finally:
            del self._requests[message.id]
            if num_open and self._process is not None:
                self._process.send(Cancel(id=message.id))
            if not self._requests:
                loop = asyncio.get_running_loop()
                self._idle = loop.call_later(self._idle_seconds, self._end, "is idle")

    async def close(self) -> None:
        """End the process; requests under way fail."""
        self.stop("was stopped")
        await asyncio.gather(*(one.closed() for one in self._endings))

    def stop(self, why: str) -> None:
        """End the process, and start no other; requests under way and later ones fail."""
        self._stopped = why
        self._end(why)

    def _started(self) -> AsyncWorker:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        if self._stopped:
            raise _ended(self._stopped)
        if self._process is None:
            self._process = AsyncWorker(self._start, self._on_message, self._end)
        return self._process

    def _start(self, on_message: OnMessage) -> WorkerProcess:
        return start_generator(self._settings, on_message, lock=self._lock, log=self._log)

    def _on_message(self, message: GeneratorReply) -> None:
        match message:
            case Failed(request=""):
                self._end(str(message.error.to_error(InferenceError)))
            case Failed():
                self._deliver(message.request, message.error.to_error(InferenceError))
            case Generated():
                for one in message.pieces:
                    self._deliver(one.request, one)
            case SizeMeasured():
                self._deliver(message.request, message)

    def _deliver(self, id_: str, found: GeneratedPiece | SizeMeasured | AuctuneError) -> None:
        # A request that was cancelled has no inbox any more.
        if (inbox := self._requests.get(id_)) is not None:
            inbox.put_nowait(found)

    def _end(self, why: str) -> None:
        """Let go of the process; its requests fail."""
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        process, self._process = self._process, None
        if process is None:
            return
        for inbox in self._requests.values():
            inbox.put_nowait(_ended(why))
        process.kill()
        self._endings.add(process)


def _ended(why: str) -> InferenceError:
    return InferenceError(f"the process of the model ended: {why}")
