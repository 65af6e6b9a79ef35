"""Fork server of a run, whose workers share a base and data that it has loaded (`--warm`).

The runtime's fork server cannot do this. A process has one at most (it is the standard library's),
which imports modules by name when it starts: it cannot be given a job, and holds what it has
imported until the process ends. Workers that are forked here are otherwise the same as all others:
their handle is a `WorkerProcess`, and they speak over its channel.

    python -m auctune.engine.spot.prefork DESCRIPTOR < SETTINGS
"""

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

from auctune.engine.runtime.channel import run_worker
from auctune.engine.runtime.local import ForkedProcess
from auctune.engine.spot.worker import (
    WORKER,
    WorkerSettings,
    dump_settings,
    load_settings,
    load_worker,
)

_PID = struct.Struct("!q")


class PreforkServer:
    """Client of the fork server.

    Args:
        settings: of the workers, on a CPU.
        log: file to which standard error is appended.

    Raises:
        OSError: if it cannot be started, or cannot load what the settings name.
    """

    def __init__(self, settings: WorkerSettings, log: Path) -> None:
        self._stream, theirs = socket.socketpair()
        with theirs, log.open("ab") as file:
            self._server = subprocess.Popen(
                # -P: a file of the user's in the current folder must not shadow a module.
                [sys.executable, "-P", "-m", __name__, str(theirs.fileno())],
                stdin=subprocess.PIPE,
                stdout=file,
                stderr=file,
                pass_fds=(theirs.fileno(),),
                # Ctrl-C in a terminal is for the coordinator, which ends its workers.
                process_group=0,
            )
        assert self._server.stdin is not None
        try:
            with self._server.stdin as stdin:
                stdin.write(json.dumps(dump_settings(settings)).encode())
            self._read_pid()
        except BaseException:
            self.close()
            raise

    def start(
        self,
        module: str,
        channel: int,
        stderr: int,
        lock: int | None,
        environment: dict[str, str],
    ) -> ForkedProcess:
        """Fork a worker (`StartProcess`), with the log and the environment of the fork server."""
        with suppress(OSError):
            socket.send_fds(self._stream, [b"+"], [channel])
        return ForkedProcess(self._read_pid())

    def close(self) -> None:
        """End the fork server; its workers stay."""
        self._stream.close()
        self._server.kill()
        self._server.wait()

    def _read_pid(self) -> int:
        answer = b""
        with suppress(OSError):
            answer = self._stream.recv(_PID.size, socket.MSG_WAITALL)
        if len(answer) < _PID.size:
            raise OSError(0, "the process that forks workers has exited; see workers.log")
        pid: int = _PID.unpack(answer)[0]
        return pid


def serve(stream: socket.socket, settings: WorkerSettings) -> None:
    """Fork a worker for each descriptor of a channel that arrives on a stream.

    Sends back process ids: the own one once everything is loaded, then that of each worker. Ends
    with the stream; the workers stay as long as their own channels.
    """
    # The kernel reaps the workers: this process does not wait for them.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    # The state of torch's threads does not survive a fork: then each worker loads.
    if settings.threads == 1:
        load_worker(settings)
    # Forking is safe with one thread.
    assert threading.active_count() == 1
    is_open = _send_pid(stream, os.getpid())
    while is_open:
        message, descriptors, *_ = socket.recv_fds(stream, 1, 1)
        if not message:
            return
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            stream.close()
            run_worker(WORKER, Connection(descriptors[0]))
        os.close(descriptors[0])
        is_open = _send_pid(stream, pid)


def _send_pid(stream: socket.socket, pid: int) -> bool:
    """Send a process id; return whether there is still anybody to read it."""
    try:
        stream.sendall(_PID.pack(pid))
    except (BrokenPipeError, ConnectionResetError):
        return False
    return True


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])), load_settings(json.load(sys.stdin)))
