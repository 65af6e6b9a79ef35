"""Client of the process that has the runs of Weights & Biases, with the key in its environment.

One process has all runs: W&B's package and its own child process take 100 MB, a run in them half a
megabyte.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any
from weakref import WeakSet

from auctune.domain import AuctuneError
from auctune.engine.runtime.channel import OnMessage
from auctune.engine.runtime.local import AsyncWorker, WorkerProcess
from auctune.service.integrations.messages import (
    RUN_MESSAGES,
    EndRun,
    LogSteps,
    RunEnded,
    RunReply,
    RunRequest,
    StartRun,
)
from auctune.service.storage.event_log import Record

WORKER = "auctune.service.integrations.worker"
END_SECONDS = 600.0
"""Time to send what is left of a run."""


class RunError(AuctuneError):
    """A run could not be logged."""


class OpenRun:
    """A run in the process."""

    def __init__(self, process: "WandbProcess", number: int) -> None:
        self._process = process
        self._number = number
        self._ended: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()

    def log(self, steps: Sequence[Record]) -> None:
        """Log metrics of steps; raise `RunError` if the run has failed."""
        if self._ended.done():
            raise RunError(self._ended.result() or "the run has ended")
        if steps:
            self._process.send(LogSteps(id=self._number, steps=steps))

    async def end(self, exit_code: int) -> None:
        """End the run, and wait until it is complete.

        Raises:
            RunError: if it failed.
        """
        self._process.send(EndRun(id=self._number, exit_code=exit_code))
        try:
            async with asyncio.timeout(END_SECONDS):
                error = await self._ended
        except TimeoutError:
            error = f"a run was not complete within {END_SECONDS:.0f} s"
            self._process.end(error)
        if error is not None:
            raise RunError(error)

    def set_ended(self, error: str | None) -> None:
        if not self._ended.done():
            self._ended.set_result(error)


class WandbProcess:
    """The process, from its first open run to its last; for one event loop.

    Args:
        environment: what differs from this process's environment.
        log: file for its standard error.
        module: that it runs.
    """

    def __init__(self, environment: Mapping[str, str], log: Path, module: str = WORKER) -> None:
        self._environment = environment
        self._log = log
        self._module = module
        self._ids = count(1)
        self._runs: dict[int, OpenRun] = {}
        self._process: AsyncWorker | None = None
        self._endings: WeakSet[AsyncWorker] = WeakSet()

    @property
    def pid(self) -> int | None:
        """Process id, None while there is no process."""
        return None if self._process is None else self._process.pid

    @contextmanager
    def open(self, folder: Path, options: dict[str, Any], *, is_kept: bool) -> Iterator[OpenRun]:
        """Hold a run open until the end of the block; one that has not ended is shown as failed.

        Arguments as of `StartRun`.
        """
        if self._process is None:
            self._process = AsyncWorker(self._start, self._receive, self.end)
        number = next(self._ids)
        run = self._runs[number] = OpenRun(self, number)
        self.send(StartRun(id=number, folder=folder, is_kept=is_kept, options=options))
        try:
            yield run
        finally:
            self.send(EndRun(id=number, exit_code=1))
            del self._runs[number]
            if not self._runs:
                self.end("it has no runs")

    def send(self, message: RunRequest) -> None:
        if self._process is not None:
            self._process.send(message)

    def end(self, why: str) -> None:
        """End the process; its runs fail."""
        process, self._process = self._process, None
        if process is None:
            return
        for run in self._runs.values():
            run.set_ended(f"the process of W&B ended: {why}")
        process.kill()
        self._endings.add(process)

    async def close(self) -> None:
        self.end("the service stops")
        await asyncio.gather(*(one.closed() for one in self._endings))

    def _start(self, on_message: OnMessage) -> WorkerProcess:
        self._log.parent.mkdir(parents=True, exist_ok=True)
        return WorkerProcess(
            self._module,
            None,
            on_message,
            RUN_MESSAGES,
            log=self._log,
            environment=self._environment,
        )

    def _receive(self, message: RunReply) -> None:
        if isinstance(message, RunEnded) and message.id in self._runs:
            self._runs[message.id].set_ended(message.error)
