"""The worker's side: messages to and from the parent process, heartbeat and parent watchdog.

A message is a JSON document in a frame of a stream socket (`multiprocessing.connection`), followed
by the float32 array of its key `array`, if it has one. If the parent ends, its end of the socket
closes, and the worker exits at once: what counts is on disk.
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
from typing import Any, NoReturn

from auctune.domain import AuctuneError, InputError
from auctune.domain.errors import OutOfMemoryError, RepairableError

Message = dict[str, Any]

OnMessage = Callable[[Message | None], None]
"""Called with each message of a worker, and with None once it has ended, last."""

_HEARTBEAT_SECONDS = 1.0


def encode(message: Message) -> bytes:
    """Return the frame of a message; numbers that are not finite are kept, as both ends are Python.

    The message may have one array, float32 [n], in its key `array`.
    """
    if "array" not in message:
        return json.dumps(message).encode()
    values = {name: value for name, value in message.items() if name != "array"}
    # JSON without indentation has no line break.
    array: bytes = message["array"].tobytes()
    return json.dumps(values).encode() + b"\n" + array


def decode(frame: bytes) -> Message:
    """Return the message of a frame; its array belongs to the receiver."""
    header, line_break, body = frame.partition(b"\n")
    message: Message = json.loads(header)
    if line_break:
        import numpy as np

        message["array"] = np.frombuffer(bytearray(body), dtype=np.float32)
    return message


def error_record(error: AuctuneError) -> Message:
    """Return an error as plain values; only an `InputError` has a place."""
    if isinstance(error, InputError):
        record: Message = {"place": error.place, "found": error.found, "expected": error.expected}
        return record | {"repairable": True} if isinstance(error, RepairableError) else record
    plain: Message = {"place": "", "found": str(error), "expected": ""}
    return plain | {"out_of_memory": True} if isinstance(error, OutOfMemoryError) else plain


def read_error(record: Message, otherwise: type[AuctuneError]) -> AuctuneError:
    """Return the error that `error_record` wrote; one without a place as `otherwise`."""
    if record["place"]:
        kind = RepairableError if record.get("repairable") else InputError
        return kind(record["place"], record["found"], record["expected"])
    return otherwise(record["found"])


class ParentChannel:
    """Connection of a worker process to its parent.

    Sends a heartbeat every second, from a thread of its own.

    Args:
        connection: the worker's end.

    Attributes:
        inbox: requests of the parent, "stop" included.
        stop_requested: set as soon as the parent requests the worker's end.
    """

    def __init__(self, connection: "Connection[Any, Any]") -> None:
        # Ctrl-C reaches all processes of a terminal; the parent decides when its workers end.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._connection = connection
        self._lock = threading.Lock()
        self.inbox: queue.Queue[Message] = queue.Queue()
        self.stop_requested = threading.Event()
        threading.Thread(target=self._receive, daemon=True).start()
        threading.Thread(target=self._send_heartbeats, daemon=True).start()

    def send(self, kind: str, **values: object) -> None:
        """Send a message."""
        try:
            with self._lock:
                self._connection.send_bytes(encode({"kind": kind, **values}))
        except (BrokenPipeError, ConnectionResetError):
            os._exit(1)

    def exit(self, code: int = 0) -> NoReturn:
        """End this process; all messages have been sent."""
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)

    def _receive(self) -> None:
        try:
            while True:
                message = decode(self._connection.recv_bytes())
                if message["do"] == "stop":
                    self.stop_requested.set()
                self.inbox.put(message)
        except (EOFError, OSError):
            os._exit(1)

    def _send_heartbeats(self) -> None:
        while not self.stop_requested.wait(_HEARTBEAT_SECONDS):
            self.send("alive")


def run_worker(module: str, connection: "Connection[Any, Any]") -> NoReturn:
    """Run the `main` of a worker module in this process, and end the process with it.

    Its argument is the first frame that comes: other users see the arguments of a process.
    """
    try:
        argument = json.loads(connection.recv_bytes())
    except (EOFError, OSError):
        os._exit(1)
    parent = ParentChannel(connection)
    try:
        importlib.import_module(module).main(parent, argument)
    # At the end of an interpreter, threads that block may hang: whatever is raised ends here.
    except BaseException:
        traceback.print_exc()
        parent.exit(1)
    parent.exit()


def main() -> None:
    """Run a worker in a fresh interpreter: arguments are its module and a descriptor."""
    module, descriptor = sys.argv[1:]
    run_worker(module, Connection(int(descriptor)))
