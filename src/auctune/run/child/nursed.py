"""Children that a nursery (auctune.run.child.nursery) forks, as their parent holds them."""

import errno
import json
import os
import secrets
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from auctune.run.child.process_handle import Streams

LENGTH = struct.Struct("!I")
PID = struct.Struct("!q")
STATUS = struct.Struct("!i")

PROGRAMS = frozenset(
    {
        "auctune.run.executor.worker",
        "auctune.run.pool.worker",
        "auctune.run.open_sites.worker",
        "auctune.run.sampling.worker",
        "auctune.run.spot.rented_job",
    }
)
"""Modules that begin with these imports as main programs."""

ADDRESS = "AUCTUNE_NURSERY"
"""Environment variable that names the socket of the nursery to be used."""


class NoNurseryError(Exception):
    """There is no nursery, or it cannot make this child."""


class NursedProcess:
    """A child of the nursery; see `ProcessHandle`.

    Args:
        address: of the nursery.
        module: to be run as the main program.
        argument: its only one.
        streams: that it gets, and descriptors that it keeps open.
        environment: all of it.

    Raises:
        NoNurseryError: if there is nobody at the address.
        OSError: if this process may not hold it.
    """

    def __init__(
        self,
        address: str,
        module: str,
        argument: str,
        streams: Streams,
        environment: Mapping[str, str],
    ) -> None:
        self._lock = threading.Lock()
        self._code: int | None = None
        self._nursery = socket.socket(socket.AF_UNIX)
        words = {
            "module": module,
            "argument": argument,
            "environment": dict(environment),
            "folder": str(Path.cwd()),
            "parent": os.getpid(),
        }
        body = json.dumps(words).encode()
        try:
            self._nursery.connect("\0" + address)
            socket.send_fds(self._nursery, [LENGTH.pack(len(body))], streams.descriptors)
            self._nursery.sendall(body)
            answer, handles, *_ = socket.recv_fds(self._nursery, PID.size, 1)
        except OSError as error:
            self._nursery.close()
            raise NoNurseryError(str(error)) from None
        self.pid: int = PID.unpack(answer)[0] if len(answer) == PID.size else 0
        if not handles:
            self._nursery.close()
            if self.pid:
                # It is there, and ends as its streams do: a second one is not for the same ones.
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            raise NoNurseryError("it cannot make this child")
        self._handle = handles[0]

    @property
    def returncode(self) -> int | None:
        """As `subprocess.Popen` has it; none: it was not waited for."""
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        """Until it has ended; see `subprocess.Popen.wait`."""
        if self._code is None:
            over = select.poll()
            over.register(self._handle, select.POLLIN)
            if not over.poll(None if timeout is None else 1000.0 * timeout):
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
            self._learn_status()
        assert self._code is not None
        return self._code

    def kill(self) -> None:
        """End it at once, if it has not ended."""
        if self._code is None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)

    def _learn_status(self) -> None:
        """It has ended: the nursery says how, unless it has itself."""
        with self._lock:
            if self._code is not None:
                return
            status = b""
            with suppress(OSError):
                status = self._nursery.recv(STATUS.size, socket.MSG_WAITALL)
            known = len(status) == STATUS.size
            self._code = os.waitstatus_to_exitcode(STATUS.unpack(status)[0]) if known else 1
            self._nursery.close()
            os.close(self._handle)


@contextmanager
def nursery() -> Iterator[None]:
    """One for all children of this process, and for theirs; none is started if there is one.

    It loads while the block runs; whoever asks it for a child meanwhile waits as long as loading
    would have taken.
    """
    if ADDRESS in os.environ:
        yield
        return
    address = f"auctune-nursery-{secrets.token_hex(16)}"
    with closing(socket.socket(socket.AF_UNIX)) as listening:
        listening.bind("\0" + address)
        listening.listen(64)
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "auctune.run.child.nursery", str(listening.fileno())],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=(listening.fileno(),),
        )
    os.environ[ADDRESS] = address
    try:
        yield
    finally:
        del os.environ[ADDRESS]
        # Its children do not need it to end.
        process.kill()
        process.communicate()
