"""Workers as processes of this machine, and the provider that rents them."""

import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from auctune.run.runtime.channel import read_error
from auctune.run.spot.connection import Connection, ConnectionClosedError, open_pair
from auctune.run.spot.provider import (
    InstanceProvider,
    Launcher,
    PurchaseOption,
    TraceCapacity,
    check_trace_length,
)
from auctune.run.spot.traces import MarketTrace
from auctune.run.spot.worker import (
    PID,
    PREFORK,
    SpotRunError,
    Weights,
    WorkerExited,
    WorkerExitedError,
    WorkerFailed,
    WorkerMessage,
    WorkerReady,
    WorkerSettings,
    dump_settings,
)
from auctune.spot.job import SpotJob
from auctune.train.data_parallel.batches import Contribution, RowRange

# A worker accepts a message at once, unless the machine is busy.
SEND_TIMEOUT = 60.0


class ConnectedWorker:
    """A `WorkerHandle` over a connection.

    Args:
        connection: to the worker.
        pid: of its process.
    """

    def __init__(self, connection: Connection, pid: int) -> None:
        self.connection = connection
        self.pid = pid
        # Of the weights that it was sent last.
        self._step = -1

    def start(self, on_message: Callable[[WorkerMessage], None]) -> None:
        def receive() -> None:
            with suppress(ConnectionClosedError):
                while True:
                    on_message(self._receive())
            on_message(WorkerExited())

        threading.Thread(target=receive, daemon=True).start()

    def compute(self, part: RowRange, weights: Weights) -> None:
        try:
            if self._step != weights.step:
                self.connection.send({"kind": "weights"}, weights.values)
                self._step = weights.step
            self.connection.send({"kind": "part", "first": part.first, "stop": part.stop})
        except ConnectionClosedError as error:
            raise WorkerExitedError(str(error)) from None

    def is_lost(self) -> bool:
        # A process that exits leaves its instance to another.
        return False

    def kill(self) -> None:
        self.connection.close()

    def _receive(self) -> WorkerMessage:
        message = self.connection.receive()
        header = dict(message.header)
        match header.pop("kind"):
            case "ready":
                return WorkerReady(**header)
            case "gradient":
                return Contribution(message.array, header["loss"])
            case _:
                return WorkerFailed(read_error(header, SpotRunError))


class _SpawnedWorker(ConnectedWorker):
    def __init__(self, connection: Connection, process: subprocess.Popen[bytes]) -> None:
        super().__init__(connection, process.pid)
        self._process = process

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        super().kill()


class _ForkedWorker(ConnectedWorker):
    """A child of the fork server: held by a descriptor, as its id may be reused."""

    def __init__(self, connection: Connection, pid: int) -> None:
        super().__init__(connection, pid)
        self._descriptor: int | None = None
        with suppress(ProcessLookupError):
            self._descriptor = os.pidfd_open(pid)

    def kill(self) -> None:
        if self._descriptor is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)
            select.select([self._descriptor], [], [])
            os.close(self._descriptor)
            self._descriptor = None
        super().kill()


class ColdLauncher:
    """A `Launcher` of interpreters that load everything themselves, as a new machine would.

    Args:
        settings: of the workers.
        log: file to which their standard error is appended.
    """

    def __init__(self, settings: WorkerSettings, log: Path) -> None:
        self._settings = settings
        self._log = log

    def launch(self, option: PurchaseOption) -> ConnectedWorker:
        with _start_errors():
            connection, theirs = open_pair(SEND_TIMEOUT)
            with theirs, self._log.open("ab") as log:
                return _SpawnedWorker(connection, _spawn(theirs, self._settings, log))

    def close(self) -> None:
        pass


class PreforkLauncher:
    """A `Launcher` of forks of a process that has loaded base and data.

    They start in milliseconds, and share the memory of the base.

    Args:
        settings, log: as for `ColdLauncher`.

    Raises:
        SpotRunError: if that process cannot load what the settings name.
    """

    def __init__(self, settings: WorkerSettings, log: Path) -> None:
        with _start_errors():
            self._stream, theirs = socket.socketpair()
            with theirs, log.open("ab") as file:
                self._server = _spawn(theirs, settings, file, PREFORK)
        try:
            self._read_pid()
        except BaseException:
            self.close()
            raise

    def launch(self, option: PurchaseOption) -> ConnectedWorker:
        with _start_errors():
            connection, theirs = open_pair(SEND_TIMEOUT)
        with theirs, suppress(OSError):
            socket.send_fds(self._stream, [b"+"], [theirs.fileno()])
        try:
            return _ForkedWorker(connection, self._read_pid())
        except SpotRunError:
            connection.close()
            raise

    def close(self) -> None:
        self._stream.close()
        self._server.kill()
        self._server.wait()

    def _read_pid(self) -> int:
        answer = b""
        with suppress(OSError):
            answer = self._stream.recv(PID.size, socket.MSG_WAITALL)
        if len(answer) < PID.size:
            raise SpotRunError("the process that forks workers has exited; see workers.log")
        pid: int = PID.unpack(answer)[0]
        return pid


@dataclass(frozen=True, slots=True, eq=False)
class LocalProvider:
    """A `ProviderFactory`: a recorded market, with processes of this machine as instances.

    Attributes:
        trace: the market; its slot 0 is the job's first.
        warm: fork workers from a process that has everything loaded; otherwise each loads for
            itself, as a new machine would.
    """

    trace: MarketTrace
    warm: bool = False

    def check(self, job: SpotJob) -> None:
        check_trace_length(self.trace, job)

    def identity(self) -> dict[str, Any]:
        return {"provider": "market", "trace": self.trace.digest}

    def open(self, settings: WorkerSettings, log: Path) -> InstanceProvider:
        launcher: Launcher = (PreforkLauncher if self.warm else ColdLauncher)(settings, log)
        return InstanceProvider(self.trace, launcher, TraceCapacity(self.trace))


@contextmanager
def _start_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SpotRunError(f"a worker's process cannot be started: {error.strerror}") from None


def _spawn(
    stream: socket.socket, settings: WorkerSettings, log: IO[bytes], *options: str
) -> subprocess.Popen[bytes]:
    arguments = (str(stream.fileno()), dump_settings(settings), *options)
    return subprocess.Popen(
        # -P: a file in the user's current folder does not shadow a module.
        [sys.executable, "-P", "-m", "auctune.run.spot.worker", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        pass_fds=(stream.fileno(),),
        # Ctrl-C in a terminal is for the coordinator, which ends its workers.
        process_group=0,
    )
