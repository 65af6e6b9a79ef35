"""The request in whose name something runs, and what it has used."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from auctune.engine.data import DataFuture

T = TypeVar("T")

# A gigabyte that is received or sent counts as ten seconds.
_SECONDS_PER_BYTE = 1e-8


class Freeable(Protocol):
    """A place that can be given back: see `auctune.service.fair_queue.Place`."""

    def free(self) -> None: ...


class Reads(Protocol):
    """Threads that read for requests: see `auctune.service.fair_queue.ReadThreads`."""

    def run(self, user: str, work: Callable[[], T]) -> Awaitable[T]: ...


@dataclass(slots=True)
class Use:
    """What requests have used of the service.

    Attributes:
        loop_seconds: on the event loop.
        thread_seconds: of CPU time of threads that worked for them.
        process_seconds: of child processes.
        bytes_in, bytes_out: of bodies.
    """

    loop_seconds: float = 0.0
    thread_seconds: float = 0.0
    process_seconds: float = 0.0
    bytes_in: int = 0
    bytes_out: int = 0

    @property
    def cost(self) -> float:
        """All of it in seconds."""
        seconds = self.loop_seconds + self.thread_seconds + self.process_seconds
        return seconds + (self.bytes_in + self.bytes_out) * _SECONDS_PER_BYTE

    def add(self, other: "Use") -> None:
        self.loop_seconds += other.loop_seconds
        self.thread_seconds += other.thread_seconds
        self.process_seconds += other.process_seconds
        self.bytes_in += other.bytes_in
        self.bytes_out += other.bytes_out


@dataclass(slots=True)
class RequestScope:
    """The request in whose name something runs.

    Attributes:
        use: what it has used so far.
        user: who sent it; None until that is known.
        weight: of the user in queues.
        gate: place before the routes, once it has one.
        check_unsent: raises `QuotaExceededError` if its user's clients do not read their responses;
            None: nothing is to be checked, as before its user is known and once it is answered.
        longest_step: seconds for which it has held the event loop at once, at most.
        reads: threads that read for requests.
    """

    reads: "Reads"
    check_unsent: Callable[[], None] | None = None
    use: Use = field(default_factory=Use)
    user: str | None = None
    weight: float = 1.0
    gate: Freeable | None = None
    longest_step: float = 0.0

    def leave_gate(self) -> None:
        """Give the place before the routes back; may be called again, and without one."""
        if self.gate is not None:
            self.gate.free()


_request: ContextVar[RequestScope | None] = ContextVar("request", default=None)


def current_request() -> RequestScope | None:
    """Return the request in whose name this runs; None: the service itself."""
    return _request.get()


def current_weight() -> float:
    """Return the weight of the user in whose name this runs; 1 for the service itself."""
    request = _request.get()
    return 1.0 if request is None else request.weight


async def outside_gate(future: DataFuture[T]) -> T:
    """Return the answer of a data process; who waits for it holds no place of the gate for that."""
    leave_gate()
    try:
        return await asyncio.wrap_future(future)
    finally:
        if (request := _request.get()) is not None:
            request.use.process_seconds += future.seconds


def leave_gate() -> None:
    """Give the place before the routes back, if this runs in the name of a request."""
    if (request := _request.get()) is not None:
        request.leave_gate()


@contextmanager
def request_scope(request: RequestScope) -> Iterator[None]:
    """Have what the block does, and the tasks that it starts, run in a request's name."""
    token = _request.set(request)
    try:
        yield
    finally:
        _request.reset(token)
