"""How the process of an instance comes to be on this machine."""

import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Protocol

from auctune.run.spot.errors import SpotRunError
from auctune.run.spot.kind import Kind
from auctune.run.spot.link import Link, make_pair
from auctune.run.spot.nursery import PID
from auctune.run.spot.worker import WorkerSettings

# A worker that waits for its next part takes a message at once; this is for a busy machine.
PATIENCE_SECONDS = 60.0

# Before anything is loaded, which takes seconds, and minutes with many at once: Ctrl-C reaches all
# processes of a terminal, but the coordinator ends its workers itself, or by its end. Not by -m,
# which would load the module a second time, beside its package's.
_WORKER = """
import signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
from auctune.run.tether import tether
tether(int(sys.argv[1]))
from auctune.run.spot.worker import main
main()
"""
# A process that forks has one thread.
_NURSERY = """
import signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
from auctune.run.spot.nursery import main
main()
"""


class WorkerProcess(Protocol):
    """A worker's process, as whoever launched it holds it."""

    @property
    def link(self) -> Link:
        """To speak with it; nothing is said before it is ready."""
        ...

    @property
    def pid(self) -> int:
        """Of the process; 0 on another machine."""
        ...

    def is_gone(self) -> bool:
        """Whether its machine was lost, with it; may wait a while where the worker has just ended.

        A worker that ends by itself leaves its machine to another one.
        """
        ...

    def kill(self) -> None:
        """End it at once by SIGKILL, if it has not ended, and let go of it; may be repeated."""
        ...


class Launcher(Protocol):
    """Starts workers of one job."""

    def launch(self, kind: Kind) -> WorkerProcess:
        """Start one; does not wait until it is ready.

        Args:
            kind: of the instance on which it is.

        Raises:
            SpotRunError: if this machine has no room for another process.
        """
        ...

    def close(self) -> None:
        """No more workers are wanted; those that there are stay."""
        ...


class FreshLauncher:
    """Each worker is an interpreter of its own that loads everything, as a new machine would.

    Args:
        settings: of the workers.
        log: file to which their standard error is added.
    """

    def __init__(self, settings: WorkerSettings, log: Path) -> None:
        self._settings = settings
        self._log = log

    def launch(self, kind: Kind) -> WorkerProcess:
        """See `Launcher`."""
        with _starting():
            link, theirs = make_pair(PATIENCE_SECONDS)
            with theirs, self._log.open("ab") as log:
                arguments = (str(theirs.fileno()), self._settings.to_json())
                return _FreshWorker(link, _start(_WORKER, arguments, theirs, log))

    def close(self) -> None:
        """Nothing is held."""


class WarmLauncher:
    """Workers are forked from a process that has loaded everything (auctune.run.spot.nursery).

    Args:
        settings, log: as for `FreshLauncher`.

    Raises:
        SpotRunError: if that process cannot load what the settings say.
    """

    def __init__(self, settings: WorkerSettings, log: Path) -> None:
        with _starting():
            self._stream, theirs = socket.socketpair()
            with theirs, log.open("ab") as file:
                arguments = (str(theirs.fileno()), settings.to_json())
                self._nursery = _start(_NURSERY, arguments, theirs, file)
        try:
            self._read_pid()
        except BaseException:
            self.close()
            raise

    def launch(self, kind: Kind) -> WorkerProcess:
        """See `Launcher`.

        Raises:
            SpotRunError: if the nursery is gone.
        """
        with _starting():
            link, theirs = make_pair(PATIENCE_SECONDS)
        with theirs, suppress(OSError):
            socket.send_fds(self._stream, [b"+"], [theirs.fileno()])
        try:
            return _ForkedWorker(link, self._read_pid())
        except SpotRunError:
            link.close()
            raise

    def close(self) -> None:
        """See `Launcher`."""
        self._stream.close()
        self._nursery.kill()
        self._nursery.wait()

    def _read_pid(self) -> int:
        answer = b""
        with suppress(OSError):
            answer = self._stream.recv(PID.size, socket.MSG_WAITALL)
        if len(answer) < PID.size:
            raise SpotRunError("the process that makes workers has ended; see workers.log")
        pid: int = PID.unpack(answer)[0]
        return pid


class _FreshWorker:
    def __init__(self, link: Link, process: subprocess.Popen[bytes]) -> None:
        self.link = link
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    def is_gone(self) -> bool:
        return False

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self.link.close()


class _ForkedWorker:
    """A child of the nursery: held by a descriptor, as its number may be given to another."""

    def __init__(self, link: Link, pid: int) -> None:
        self.link = link
        self.pid = pid
        self._descriptor: int | None = None
        with suppress(ProcessLookupError):
            self._descriptor = os.pidfd_open(pid)

    def is_gone(self) -> bool:
        return False

    def kill(self) -> None:
        if self._descriptor is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)
            select.select([self._descriptor], [], [])
            os.close(self._descriptor)
            self._descriptor = None
        self.link.close()


@contextmanager
def _starting() -> Iterator[None]:
    """Says of what the system refuses that no worker can be started."""
    try:
        yield
    except OSError as error:
        raise SpotRunError(f"no process of a worker can be started: {error.strerror}") from None


def _start(
    program: str, arguments: tuple[str, ...], stream: socket.socket, log: IO[bytes]
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        # -P: a file of the user's in the current folder is no module of ours.
        [sys.executable, "-P", "-c", program, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        pass_fds=(stream.fileno(),),
    )
