"""A process that has loaded base and data, and makes workers of itself.

A worker made so is there in milliseconds, and shares the memory of the base with its siblings for
as long as nobody writes to it, which nobody does. Forking is safe here: the process has one thread,
and no work on a GPU has begun.

It speaks over a stream of its own, in process ids of 8 bytes: its own when it has loaded; then each
byte that comes in brings the socket of a new worker, and the answer is the worker's id. At the end
of the stream it ends; its workers stay as long as their own links.
"""

import os
import signal
import socket
import struct
import sys
import threading

from auctune.run.spot.link import SocketLink
from auctune.run.spot.worker import Bench, WorkerSettings, run, set_up
from auctune.run.tether import tether

PID = struct.Struct("!q")


def main() -> None:
    """Arguments are the number of the inherited stream, and the workers' settings."""
    stream = socket.socket(fileno=int(sys.argv[1]))
    settings = WorkerSettings.from_json(sys.argv[2])
    # Nobody waits for workers here: the kernel buries them.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    # A device's state does not survive a fork; there each worker loads for itself.
    bench = set_up(settings) if settings.device == "cpu" and settings.threads == 1 else None
    assert threading.active_count() == 1
    stream.sendall(PID.pack(os.getpid()))
    _make_workers(stream, settings, bench)


def _make_workers(stream: socket.socket, settings: WorkerSettings, bench: Bench | None) -> None:
    while True:
        message, descriptors, *_ = socket.recv_fds(stream, 1, 1)
        if not message:
            return
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            stream.close()
            tether(descriptors[0])
            os._exit(run(SocketLink(socket.socket(fileno=descriptors[0])), settings, bench))
        os.close(descriptors[0])
        stream.sendall(PID.pack(pid))
