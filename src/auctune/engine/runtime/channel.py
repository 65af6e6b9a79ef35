"""The worker's side: messages to and from the parent process, heartbeat and parent watchdog.

A message is a JSON document in a frame of a stream socket (`multiprocessing.connection`), followed
by the arrays of its key `arrays`, if it has any. If the parent ends, its end of the socket closes,
and the worker exits at once: what counts is on disk. A worker in an actor of a Ray cluster
exchanges the same messages by calls of the actor (`auctune.engine.runtime.ray.actor`).
"""

import importlib
import json
import os
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from typing import Any, Generic, Literal, NoReturn, NotRequired, TypedDict, TypeVar

from auctune.domain import AuctuneError, InputError
from auctune.domain.errors import OutOfMemoryError, RepairableError

Message = dict[str, Any]
"""A message as it is received: the types of a worker's messages stand beside its handle."""

OnMessage = Callable[[Any], None]
"""Called with each message of a worker, and with None once it has ended, last."""

M = TypeVar("M", bound=Mapping[str, object], contravariant=True)


class Alive(TypedDict):
    """Heartbeat of a worker; every worker sends it once a second."""

    kind: Literal["alive"]


class ErrorRecord(TypedDict):
    """An error as plain values; only an `InputError` has a place."""

    place: str
    found: str
    expected: str
    repairable: NotRequired[bool]
    out_of_memory: NotRequired[bool]
    unreadable: NotRequired[bool]


class Failed(ErrorRecord):
    """The worker cannot do what its argument says, and exits; or what one request says."""

    kind: Literal["failed"]


class Preparing(TypedDict):
    """Progress of what takes long before a worker is ready; `share` is of the whole, in [0, 1]."""

    kind: Literal["preparing"]
    what: str
    share: float


_HEARTBEAT_SECONDS = 1.0
HEARTBEAT_TIMEOUT, STARTUP_TIMEOUT = 15.0, 60.0
"""Seconds without a message after which a worker is given up, and those before it is ready: loading
libraries blocks all threads of a process."""


def encode(message: Mapping[str, Any]) -> bytes:
    """Return the frame of a message; numbers that are not finite are kept, as both ends are Python.

    The message may have arrays of one dimension, float32 or uint8, in its key `arrays`.
    """
    arrays = message.get("arrays", ())
    if not arrays:
        return json.dumps(message).encode()
    shapes = [[str(array.dtype), array.size] for array in arrays]
    # JSON without indentation has no line break.
    header = json.dumps({**message, "arrays": shapes}).encode()
    # Without a copy of each array: those of large adapters are gigabytes.
    return b"".join([header, b"\n", *arrays])


def decode(frame: bytes) -> Message:
    """Return the message of a frame; its arrays belong to the receiver."""
    end = frame.find(b"\n")
    message: Message = json.loads(frame if end < 0 else frame[:end])
    if shapes := message.get("arrays"):
        import numpy as np

        buffer, offset, arrays = bytearray(memoryview(frame)[end + 1 :]), 0, []
        for dtype, size in shapes:
            arrays.append(np.frombuffer(buffer, dtype, size, offset))
            offset += arrays[-1].nbytes
        message["arrays"] = arrays
    return message


def error_record(error: AuctuneError) -> ErrorRecord:
    """Return an error as plain values."""
    if isinstance(error, InputError):
        record = ErrorRecord(place=error.place, found=error.found, expected=error.expected)
        if isinstance(error, RepairableError):
            record["repairable"] = True
        return record
    record = ErrorRecord(place="", found=str(error), expected="")
    if isinstance(error, OutOfMemoryError):
        record["out_of_memory"] = True
    return record


def read_error(record: ErrorRecord, otherwise: type[AuctuneError]) -> AuctuneError:
    """Return the error that `error_record` wrote; one without a place as `otherwise`."""
    if record["place"]:
        kind = RepairableError if record.get("repairable") else InputError
        return kind(record["place"], record["found"], record["expected"])
    return otherwise(record["found"])


class ParentChannel(Generic[M]):
    """Channel of a worker, which sends messages of the type `M`, to its parent.

    Sends a heartbeat every second, from a thread of its own.

    Args:
        transmit: sends a message; not called by two threads at once.
        end: ends the worker with an exit code.

    Attributes:
        inbox: requests of the parent, "stop" included.
        stop_requested: set as soon as the parent requests the worker's end.
    """

    def __init__(
        self, transmit: Callable[[Mapping[str, object]], None], end: Callable[[int], NoReturn]
    ) -> None:
        self._transmit, self._end = transmit, end
        self._lock = threading.Lock()
        self.inbox: queue.Queue[Message] = queue.Queue()
        self.stop_requested = threading.Event()
        threading.Thread(target=self._send_heartbeats, daemon=True).start()

    def send(self, message: M) -> None:
        """Send a message."""
        self._send(message)

    def receive(self, message: Message) -> None:
        """Put a message of the parent into the inbox."""
        if message["do"] == "stop":
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
            self._send(Alive(kind="alive"))

    def _send(self, message: Mapping[str, object]) -> None:
        with self._lock:
            self._transmit(message)


def run_main(module: str, parent: ParentChannel[Any], argument: object) -> NoReturn:
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

    def transmit(message: Mapping[str, object]) -> None:
        try:
            connection.send_bytes(encode(message))
        except (BrokenPipeError, ConnectionResetError):
            os._exit(1)

    def receive() -> None:
        try:
            while True:
                parent.receive(decode(connection.recv_bytes()))
        except (EOFError, OSError):
            os._exit(1)

    parent = ParentChannel[Any](transmit, _end_process)
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
