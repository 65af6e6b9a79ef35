"""A process that has imported what children train with, and makes children of itself.

torch and transformers take three seconds of a core to import, and 400 MB, in each process anew. A
child made here is there in milliseconds and shares that memory with its siblings. Forking is safe:
the process has one thread, and has touched no device.

It listens on a socket in the abstract namespace, whose name `auctune.run.child.nursed` keeps in an
environment variable, and serves processes of its own user alone. A connection asks for one child:

    request  4 bytes length, then JSON {module, argument, environment, folder, parent}; with the
             length come the descriptors that shall be 0, 1 and 2, and those to be kept open
    answer   8 bytes process id, with a descriptor of the process; 0: not here, as the environment
             differs in what imports read
    later    4 bytes, the status as waitpid gives it

It ends when its standard input does; its children go on.
"""

import gc
import importlib
import json
import os
import runpy
import signal
import socket
import struct
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from selectors import EVENT_READ, DefaultSelector
from typing import Any

from setproctitle import getproctitle, setproctitle

from auctune.run.child.nursed import LENGTH, PID, STATUS

MOST_DESCRIPTORS = 8
_PEER = struct.Struct("3i")
_REQUEST_SECONDS = 10.0

# The programs themselves are run, not imported.
_IMPORTED = (
    "torch",
    "transformers",
    "transformers.models.auto.modeling_auto",
    "transformers.models.gpt2.modeling_gpt2",
    "peft",
    "auctune.run.child.parent",
    "auctune.run.executor.messages",
    "auctune.train.trainer",
    "auctune.train.profile",
    "auctune.train.sampling",
    "auctune.train.tiny",
)
# Names whose values are read as modules are imported, or by the interpreter itself; only those that
# people set. Of others, imports set some themselves, and not the same in all processes.
_READ_BY_IMPORTS = (
    *("CUDA_", "HF_", "HIP_", "PYTORCH_", "TRANSFORMERS_", "LD_LIBRARY_PATH", "LD_PRELOAD"),
    *("MKL_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PYTHONPATH"),
)
# Where the hub's cache is, unless HF_HOME says it.
_READ_FOR_THE_HUB = ("HOME", "XDG_CACHE_HOME")


@dataclass(frozen=True, slots=True)
class Order:
    """Who a child is to be.

    Attributes:
        module: to be run as the main program.
        argument: its only one.
        environment: all of it.
        folder: in which it works.
        parent: process id of whoever wants it.
        descriptors: 0, 1 and 2, and more that stay open.
    """

    module: str
    argument: str
    environment: dict[str, str]
    folder: str
    parent: int
    descriptors: tuple[int, ...]


def read_by_imports(environment: Mapping[str, str]) -> dict[str, str]:
    """The part of an environment in which a forked child cannot differ."""
    others = () if "HF_HOME" in environment else _READ_FOR_THE_HUB
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(_READ_BY_IMPORTS) or name in others
    }


class Nursery:
    """Serves requests until nobody wants it any more.

    Args:
        listening: the socket, listening.
        end: a descriptor at whose end it ends.
        born_with: what imports have read of the environment.
    """

    def __init__(self, listening: socket.socket, end: int, born_with: Mapping[str, str]) -> None:
        self._listening = listening
        self._end = end
        self._born_with = born_with
        self._holders: dict[int, socket.socket] = {}
        self._selector = DefaultSelector()
        self._woken, wakes = socket.socketpair()
        self._woken.setblocking(False)
        wakes.setblocking(False)
        self._wakes = wakes

    def serve(self) -> Order | None:
        """Make children; in each of them the order that it is to carry out is returned."""
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wakes.fileno())
        for source in (self._listening, self._end, self._woken):
            self._selector.register(source, EVENT_READ)
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._listening:
                    order = self._answer()
                    if order is not None:
                        return order
                elif key.fileobj is self._woken:
                    self._bury()
                elif not os.read(self._end, 1):
                    # Children that end from here on wake nobody.
                    signal.set_wakeup_fd(-1)
                    for held in (self._selector, self._woken, self._wakes):
                        held.close()
                    return None

    def _answer(self) -> Order | None:
        """Serve one request; in its child, the order."""
        asking, _ = self._listening.accept()
        asking.settimeout(_REQUEST_SECONDS)
        order = None
        try:
            order = _read_order(asking) if _is_ours(asking) else None
            if order is None or read_by_imports(order.environment) != self._born_with:
                with asking:
                    asking.sendall(PID.pack(0))
            elif (pid := os.fork()) == 0:
                self._forget(asking)
                return order
            else:
                self._hand_out(asking, pid)
        except OSError:
            # Whoever asks is gone, or the system refuses a process: they start one themselves.
            asking.close()
        for descriptor in () if order is None else order.descriptors:
            os.close(descriptor)
        return None

    def _hand_out(self, asking: socket.socket, pid: int) -> None:
        self._holders[pid] = asking
        try:
            self._send_handle(asking, pid)
        except OSError:
            # Nobody has it; whoever asked starts another one.
            os.kill(pid, signal.SIGKILL)
            raise

    def _send_handle(self, asking: socket.socket, pid: int) -> None:
        # Before it can be buried: its number is its own until then.
        handle = os.pidfd_open(pid)
        try:
            socket.send_fds(asking, [PID.pack(pid)], [handle])
        finally:
            os.close(handle)

    def _bury(self) -> None:
        """Tell of all children that have ended."""
        with suppress(BlockingIOError):
            while self._woken.recv(512):
                pass
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                pid, status = ended
                with self._holders.pop(pid) as holder, suppress(OSError):
                    holder.sendall(STATUS.pack(status))

    def _forget(self, asking: socket.socket) -> None:
        """In a child: nothing of all this is its own."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._selector.close()
        for held in (self._listening, self._woken, self._wakes, asking, *self._holders.values()):
            held.close()


def _is_ours(asking: socket.socket) -> bool:
    peer = asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    return bool(_PEER.unpack(peer)[1] == os.getuid())


def _read_order(asking: socket.socket) -> Order | None:
    """None: it is broken off."""
    head, descriptors, *_ = socket.recv_fds(asking, LENGTH.size, MOST_DESCRIPTORS)
    # Words that are no order are broken off, too, and so is who stalls.
    with suppress(OSError, ValueError, TypeError, struct.error):
        (length,) = LENGTH.unpack(head)
        body = b""
        while len(body) < length and (piece := asking.recv(length - len(body))):
            body += piece
        words: dict[str, Any] = json.loads(body)
        return Order(**words, descriptors=tuple(descriptors))
    for descriptor in descriptors:
        os.close(descriptor)
    return None


def become(order: Order) -> None:
    """Be the child that was ordered: as an interpreter of its own would run that module."""
    for place, descriptor in enumerate(order.descriptors[:3]):
        os.dup2(descriptor, place)
        os.close(descriptor)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(order.environment)
    os.chdir(order.folder)
    setproctitle(f"auctune -m {order.module} for {order.parent}: {order.argument}")
    sys.argv = [order.module, order.argument]
    runpy.run_module(order.module, run_name="__main__", alter_sys=True)


def main(arguments: Sequence[str]) -> None:
    """The argument is the number of the inherited socket, which listens."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    listening = socket.socket(fileno=int(arguments[0]))
    # Finds where the title lies, by an environment that nothing has touched yet.
    getproctitle()
    # Some modules write into it as they are imported.
    born_with = read_by_imports(os.environ)
    for name in _IMPORTED:
        importlib.import_module(name)
    assert threading.active_count() == 1
    # A child could not use a GPU that its parent has touched.
    torch = sys.modules.get("torch")
    assert torch is None or not torch.cuda.is_initialized()
    # What is there now stays: children need not look through it, nor copy it by doing so.
    gc.collect()
    gc.freeze()
    order = Nursery(listening, sys.stdin.fileno(), born_with).serve()
    if order is not None:
        become(order)


if __name__ == "__main__":
    main(sys.argv[1:])
