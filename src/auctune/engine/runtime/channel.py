"""The worker's side: messages to and from the parent process, heartbeat and parent watchdog.

A message (`auctune.engine.messages`) is a JSON document in a frame of a stream socket
(`multiprocessing.connection`), followed by the arrays of its field `arrays`, if it has one. If the
parent ends, its end of the socket closes, and the worker exits at once: what counts is on disk. A
worker in an actor of a Ray cluster exchanges the same messages by calls of the actor
(`auctune.engine.runtime.ray.actor`).

A worker module has a function `main(parent, argument)` and `MESSAGES`, the unions of its requests
and replies.
"""

import importlib
import json
import os
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, Generic, NoReturn, TypeVar

import numpy as np
from pydantic import TypeAdapter, ValidationError

from auctune.engine.messages.base import Alive, Stop, WorkerMessages

OnMessage = Callable[[Any], None]
"""Called with each message of a worker, and with None once it has ended, last."""

Reply = TypeVar("Reply", contravariant=True)
Request = TypeVar("Request")


_HEARTBEAT_SECONDS = 1.0
HEARTBEAT_TIMEOUT, STARTUP_TIMEOUT = 15.0, 60.0
"""Seconds without a message after which a worker is given up, and those before it is ready: loading
libraries blocks all threads of a process."""


class MessageError(ValueError):
    """Something is not a message of the union that is sent here; names its type and the field."""


def check(message: Any, messages: TypeAdapter[Any], *, strict: bool = True) -> Any:
    """Return a message of the union `messages`; unless `strict`, also of plain values.

    Raises:
        MessageError: if it is not of the union.
    """
    try:
        return messages.validate_python(message, strict=strict)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise MessageError(f"{place}: {first['msg']}" if place else first["msg"]) from error


def encode(message: Any, messages: TypeAdapter[Any]) -> bytes:
    """Return the frame of a message of the union `messages`.

    Raises:
        PydanticSerializationError: if it is not of the union.
    """
    header = messages.dump_python(message, mode="json", exclude={"arrays"}, warnings="error")
    arrays = getattr(message, "arrays", None)
    if arrays is None:
        return json.dumps(header).encode()
    header["arrays"] = [[str(array.dtype), array.size] for array in arrays]
    # JSON without indentation has no line break. Without a copy of each array: those of large
    # adapters are gigabytes.
    return b"".join([json.dumps(header).encode(), b"\n", *arrays])


def decode(frame: bytes, messages: TypeAdapter[Any]) -> Any:
    """Return the message of a frame; its arrays belong to the receiver.

    Raises:
        MessageError: if it is not of the union.
    """
    end = frame.find(b"\n")
    message: dict[str, Any] = json.loads(frame if end < 0 else frame[:end])
    if end >= 0:
        buffer, offset, arrays = bytearray(memoryview(frame)[end + 1 :]), 0, []
        for dtype, size in message["arrays"]:
            arrays.append(np.frombuffer(buffer, dtype, size, offset))
            offset += arrays[-1].nbytes
        message["arrays"] = tuple(arrays)
    return check(message, messages, strict=False)


class ParentChannel(Generic[Reply, Request]):
    """Channel of a worker to its parent, with unions of the messages in both directions.

    Sends a heartbeat every second, from a thread of its own.

    Args:
        transmit: sends a message; not called by two threads at once.
        end: ends the worker with an exit code.

    Attributes:
        inbox: requests of the parent, `Stop` included.
        stop_requested: set as soon as the parent requests the worker's end.
    """

    def __init__(self, transmit: Callable[[object], None], end: Callable[[int], NoReturn]) -> None:
        self._transmit, self._end = transmit, end
        self._lock = threading.Lock()
        self.inbox: queue.Queue[Request] = queue.Queue()
        self.stop_requested = threading.Event()
        threading.Thread(target=self._send_heartbeats, daemon=True).start()

    def send(self, message: Reply | Alive) -> None:
        """Send a message."""
        with self._lock:
            self._transmit(message)

    def receive(self, message: Request) -> None:
        """Put a message of the parent into the inbox."""
        if isinstance(message, Stop):
            self.stop_requested.set()
        self.inbox.put(message)

    def exit(self, code: int = 0) -> NoReturn:
        """End the worker; all messages have been sent.

        Raises:
            SystemExit: where the worker is not a process of its own.
        """
        self._end(code)

    def _send_heartbeats(self) -> None:
        while not self.stop_requested.wait(_HEARTBEAT_SECONDS):
            self.send(Alive())


def run_main(module: str, parent: ParentChannel[Any, Any], argument: object) -> NoReturn:
    """Run the `main` of a worker module, and end the worker with it; an error is printed."""
    try:
        importlib.import_module(module).main(parent, argument)
    except SystemExit:
        raise
    # At the end of an interpreter, threads that block may hang: whatever is raised ends here.
    except BaseException:
        traceback.print_exc()
        parent.exit(1)
    parent.exit()


def run_worker(module: str, connection: "Connection[Any, Any]") -> NoReturn:
    """Run a worker in this process, and end the process with it.

    Its argument is the first frame that comes: other users see the arguments of a process.
    """
    try:
        argument = json.loads(connection.recv_bytes())
    except (EOFError, OSError):
        os._exit(1)
    # Ctrl-C reaches all processes of a terminal; the parent decides when its workers end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def transmit(message: object) -> None:
        try:
            connection.send_bytes(encode(message, messages.replies))
        except (BrokenPipeError, ConnectionResetError):
            os._exit(1)

    def receive() -> None:
        try:
            while True:
                parent.receive(decode(connection.recv_bytes(), messages.requests))
        except (EOFError, OSError):
            os._exit(1)
        # Otherwise the worker would run on, and hear no more.
        except BaseException:
            traceback.print_exc()
            _end_process(1)

    messages: WorkerMessages = importlib.import_module(module).MESSAGES
    parent = ParentChannel[Any, Any](transmit, _end_process)
    threading.Thread(target=receive, daemon=True).start()
    run_main(module, parent, argument)


def _end_process(code: int) -> NoReturn:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def main() -> None:
    """Run a worker in a fresh interpreter: arguments are its module and a descriptor."""
    module, descriptor = sys.argv[1:]
    run_worker(module, Connection(int(descriptor)))
